//! `ztensor verify`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::display::{note_unreadable, say, say_json, tensors};
use crate::{Outcome, Result, limits};

#[derive(Args)]
pub(crate) struct Verify {
    /// Files of any readable format
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(crate) fn run(self) -> Result {
        let mut outcome = Outcome::Done;
        let mut documents = Vec::new();
        for file in &self.files {
            let reader = match limits::open(file) {
                Ok(reader) => reader,
                Err(error) => {
                    outcome = Outcome::Failed;
                    note_unreadable(file, &error, self.json.then_some(&mut documents));
                    continue;
                }
            };
            let mut failures = reader.verify_all();
            let archived = reader.archived().is_some();
            if archived && let Err(error) = limits::options().verify_archive(file) {
                failures.push((file.display().to_string(), error));
            }
            let checked = reader
                .objects()
                .flat_map(|(_, object)| &object.components)
                .filter(|(_, component)| component.digest.is_some())
                .count()
                + reader.index().file_digests.len()
                + usize::from(archived);
            if !failures.is_empty() {
                outcome = outcome.max(Outcome::Different);
            }
            if self.json {
                documents.push(json!({
                    "path": file.display().to_string(),
                    "tensors": reader.len(),
                    "checksums": checked,
                    "failures": failures.iter().map(|(name, error)| json!({
                        "name": name, "kind": error.kind().name(), "reason": error.message(),
                    })).collect::<Vec<_>>(),
                }));
                continue;
            }
            for (_, error) in &failures {
                say(&format!("{}: {error}", file.display()))?;
            }
            let verdict =
                if failures.is_empty() { "good".to_owned() } else { format!("{} damaged", failures.len()) };
            say(&format!("{}: {verdict}; {}, {checked} checksums", file.display(), tensors(reader.len())))?;
        }
        if self.json {
            say_json(&documents.into())?;
        }
        Ok(outcome)
    }
}
