//! `ztensor scan`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use ztensor::formats::pytorch::{Trust, scan};

use crate::display::{note_unreadable, say, say_json};
use crate::{Outcome, Result};

#[derive(Args)]
pub(crate) struct Scan {
    /// PyTorch files, or any other pickles
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Scan {
    /// Exit code 1 when anything is outside the list of what is known to be harmless.
    pub(crate) fn run(self) -> Result {
        let mut outcome = Outcome::Done;
        let mut documents = Vec::new();
        for file in &self.files {
            let found = match scan(file) {
                Ok(found) => found,
                Err(error) => {
                    outcome = Outcome::Failed;
                    note_unreadable(file, &error, self.json.then_some(&mut documents));
                    continue;
                }
            };
            if !found.is_harmless() {
                outcome = outcome.max(Outcome::Different);
            }
            if self.json {
                let pickles: Vec<_> = found
                    .pickles
                    .iter()
                    .map(|pickle| {
                        json!({
                            "name": pickle.name,
                            "globals": pickle.globals.iter().map(|global| json!({
                                "module": global.module, "name": global.name, "trust": word(global.trust),
                            })).collect::<Vec<_>>(),
                            "calls": pickle.calls.iter().map(|(opcode, count)| json!({ "opcode": opcode, "count": count })).collect::<Vec<_>>(),
                            "error": pickle.error,
                        })
                    })
                    .collect();
                documents.push(json!({
                    "path": file.display().to_string(), "harmless": found.is_harmless(), "pickles": pickles,
                }));
                continue;
            }
            for pickle in &found.pickles {
                say(&format!("{}: {}", file.display(), pickle.name))?;
                for global in &pickle.globals {
                    say(&format!("  {:<9} {}.{}", word(global.trust), global.module, global.name))?;
                }
                if let Some(error) = &pickle.error {
                    say(&format!("  cannot be followed to its end: {error}"))?;
                }
            }
            say(match found.trust() {
                Trust::Harmless => "nothing but tensors and containers would be made",
                Trust::Unknown => {
                    "loading it with an unpickler would import names that are not known to be harmless"
                }
                Trust::Dangerous => {
                    "DANGEROUS: loading it with an unpickler would run code of its choice; ztensor reads it without doing so"
                }
            })?;
        }
        if self.json {
            say_json(&documents.into())?;
        }
        Ok(outcome)
    }
}

fn word(trust: Trust) -> &'static str {
    match trust {
        Trust::Harmless => "harmless",
        Trust::Unknown => "unknown",
        Trust::Dangerous => "dangerous",
    }
}
