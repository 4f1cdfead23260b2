//! Whose file it is. A forked process has copies of all that its parent was about to write, and its end runs the same destructors: without
//! a look at the process, a child that merely exits cuts off or removes what the parent is writing.

use crate::error::{Error, Result};

/// The process that opened a file for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    /// This process.
    pub(crate) fn current() -> Owner {
        Owner(std::process::id())
    }

    /// Whether it is this process still, and not a fork of it.
    pub(crate) fn is_current(self) -> bool {
        self == Owner::current()
    }

    /// Refuses to write from a forked process.
    pub(crate) fn check(self) -> Result<()> {
        if self.is_current() {
            return Ok(());
        }
        Err(Error::argument(format!(
            "this file is being written by process {}, of which this process, {}, is a fork",
            self.0,
            std::process::id()
        ))
        .with_hint("Open a writer in the process that writes; a file is written by one process."))
    }
}
