//! What came of a command's work: a line for each part of it as it is done, or with `--json` one document at the end.

use clap::Args;
use serde_json::Value as Json;

use crate::Result;
use crate::display::{complain, say, say_json};

#[derive(Args, Clone, Copy)]
pub(crate) struct JsonOption {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl JsonOption {
    /// A command that has one thing to say.
    pub(crate) fn tell(self, line: &str, document: Json) -> Result<()> {
        match self.json {
            true => say_json(&document).map(drop),
            false => say(line),
        }
    }

    /// A command whose standard output may be its data: the line, if there is one, goes to standard error.
    pub(crate) fn tell_aside(self, line: Option<&str>, document: &Json) -> Result<()> {
        match (self.json, line) {
            (true, _) => say_json(document).map(drop),
            (false, Some(line)) => {
                complain(line);
                Ok(())
            }
            (false, None) => Ok(()),
        }
    }

    /// A command over several things.
    pub(crate) fn results(self) -> Results {
        Results { json: self.json, documents: Vec::new() }
    }
}

/// The parts that are done so far.
pub(crate) struct Results {
    json: bool,
    documents: Vec<Json>,
}

impl Results {
    /// Tells of one part.
    pub(crate) fn add(&mut self, line: &str, document: Json) -> Result<()> {
        match self.json {
            true => self.documents.push(document),
            false => say(line)?,
        }
        Ok(())
    }

    /// A line for people that says nothing programs would not know from the rest.
    pub(crate) fn remark(&self, line: &str) -> Result<()> {
        if self.json { Ok(()) } else { say(line) }
    }

    /// All parts as a list, where they were not told before.
    pub(crate) fn finish(self) -> Result<()> {
        self.finish_as(Json::from)
    }

    /// The same in another shape.
    pub(crate) fn finish_as(self, shape: impl FnOnce(Vec<Json>) -> Json) -> Result<()> {
        if self.json { say_json(&shape(self.documents)).map(drop) } else { Ok(()) }
    }
}
