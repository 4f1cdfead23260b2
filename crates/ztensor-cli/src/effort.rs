//! `--effort`, the same for every command that compresses.

use clap::Args;
use clap::builder::PossibleValue;
use ztensor::Effort;

use crate::Result;

#[derive(Args)]
pub(crate) struct EffortOption {
    /// fast decodes fastest, max is smallest, default lies between
    #[arg(long, value_name = "EFFORT", default_value = "default", value_parser = names())]
    effort: String,
}

/// The efforts by name; `balanced` is an older name of the default.
pub(crate) fn names() -> Vec<PossibleValue> {
    let shown = ["fast", "default", "max"].map(PossibleValue::new);
    shown.into_iter().chain([PossibleValue::new("balanced").hide(true)]).collect()
}

impl EffortOption {
    pub(crate) fn effort(&self) -> Result<Effort> {
        Ok(Effort::parse(&self.effort)?)
    }
}
