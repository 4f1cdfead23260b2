//! `ztensor completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::display::say;
use crate::{Arguments, Outcome, Result};

#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "ztensor", &mut script);
        say(String::from_utf8_lossy(&script).trim_end())?;
        Ok(Outcome::Done)
    }
}
