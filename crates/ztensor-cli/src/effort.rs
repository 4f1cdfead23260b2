//! `--effort`, the same for every command that compresses.

use clap::Args;
use ztensor::Effort;

use crate::Result;

#[derive(Args)]
pub(crate) struct EffortOption {
    /// fast decodes fastest, max is smallest, default (or balanced) lies between
    #[arg(long, value_name = "EFFORT", default_value = "default", value_parser = ["fast", "default", "balanced", "max"])]
    effort: String,
}

impl EffortOption {
    pub(crate) fn effort(&self) -> Result<Effort> {
        Ok(Effort::parse(&self.effort)?)
    }
}
