//! `ztensor scan`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value as Json, json};
use ztensor::folder::all_files;
use ztensor::scan::{Part, Scan as Found, Trust, Verdict};

use super::bases::Bases;
use crate::display::{counted, note_unreadable, say, say_json};
use crate::limits::standard_input;
use crate::{Failure, Outcome, Result};

#[derive(Args)]
pub(crate) struct Scan {
    /// Files of any format, and folders with all files in them; - is standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    bases: Bases,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Scan {
    /// Exit code 0 where all files are safe, 1 where one is dangerous, 2 where of one it cannot be told.
    pub(crate) fn run(self) -> Result {
        let mut worst = Verdict::Safe;
        let mut documents = Vec::new();
        let mut left_out = 0;
        for (file, named) in self.expanded()? {
            let file = &file;
            let options = self.bases.options();
            let scanned = match file == Path::new("-") {
                true => standard_input().and_then(|source| options.scan_source(source)),
                false => options.scan(file),
            };
            let found = match scanned {
                Ok(found) => found,
                // Configuration and documentation; a file that was named, or is named like one that holds code, is another matter.
                Err(error)
                    if error.kind() == ztensor::Kind::UnknownFormat && !named && !may_hold_code(file) =>
                {
                    left_out += 1;
                    continue;
                }
                Err(error) => {
                    worst = worst.max(Verdict::CouldNotTell);
                    note_unreadable(file, &error, self.json.then_some(&mut documents));
                    if !self.json {
                        say(&format!("{}: could not tell", file.display()))?;
                    }
                    continue;
                }
            };
            worst = worst.max(found.verdict());
            match self.json {
                true => documents.push(document(file, &found)),
                false => show(file, &found)?,
            }
        }
        if self.json {
            say_json(&documents.into())?;
        } else if left_out > 0 {
            say(&format!("{} of no format with a place for code", counted(left_out, "other file")))?;
        }
        Ok(match worst {
            Verdict::Safe => Outcome::Done,
            Verdict::Dangerous => Outcome::Different,
            Verdict::CouldNotTell => Outcome::Failed,
        })
    }
}

impl Scan {
    /// Every file, and whether the user named it.
    fn expanded(&self) -> Result<Vec<(PathBuf, bool)>> {
        let mut files = Vec::new();
        for path in &self.files {
            match path.is_dir() {
                true => {
                    let inside = all_files(path)?;
                    if inside.is_empty() {
                        return Err(Failure::new(format!("there is no file in \"{}\"", path.display())));
                    }
                    files.extend(inside.into_iter().map(|file| (file, false)));
                }
                false => files.push((path.clone(), true)),
            }
        }
        Ok(files)
    }
}

/// Whether a file's name is one of pickles, or of what may have some inside.
fn may_hold_code(file: &Path) -> bool {
    const ENDS: [&str; 28] = [
        "7z", "bin", "bz2", "ckpt", "dill", "gz", "h5", "hdf5", "joblib", "keras", "lz4", "mar", "nemo",
        "npy", "npz", "p", "pickle", "pkl", "pt", "pth", "rar", "tar", "tbz2", "tgz", "xz", "z", "zip",
        "zst",
    ];
    let end = file.extension().and_then(|end| end.to_str()).map(str::to_ascii_lowercase);
    end.is_some_and(|end| ENDS.contains(&end.as_str()))
}

/// What was found in one file, for people: the verdict last, where the eye ends.
fn show(file: &Path, found: &Found) -> Result<()> {
    for part in &found.parts {
        say(&format!("{}: {}", file.display(), part.name))?;
        for global in &part.globals {
            say(&format!("  {:<9} {}.{}", word(global.trust), global.module, global.name))?;
        }
        for call in &part.calls {
            say(&format!("  would call {}", call.text))?;
        }
        if let Some(error) = &part.error {
            say(&format!("  cannot be followed to its end: {error}"))?;
        }
    }
    say(&format!(
        "{}: {}",
        file.display(),
        match found.verdict() {
            Verdict::Safe if found.parts.is_empty() => "safe: there is nothing in it that would be run",
            Verdict::Safe => "safe: nothing but tensors and containers would be made",
            Verdict::CouldNotTell => "could not tell: loading it would run code that is not known here",
            Verdict::Dangerous => {
                "DANGEROUS: loading it with the library it was made for would run code of its choice; ztensor reads it without doing so"
            }
        }
    ))
}

fn document(file: &Path, found: &Found) -> Json {
    let part = |part: &Part| {
        json!({
            "name": part.name,
            "kind": part.kind,
            "verdict": part.verdict().name(),
            "globals": part.globals.iter().map(|global| json!({
                "module": global.module, "name": global.name, "trust": word(global.trust),
            })).collect::<Vec<_>>(),
            "calls": part.calls.iter().map(|call| json!({
                "call": call.text, "trust": word(call.trust),
            })).collect::<Vec<_>>(),
            "opcodes": part.opcodes.iter().map(|(opcode, count)| json!({
                "opcode": opcode, "count": count,
            })).collect::<Vec<_>>(),
            "error": part.error,
        })
    };
    json!({
        "path": file.display().to_string(),
        "verdict": found.verdict().name(),
        "parts": found.parts.iter().map(part).collect::<Vec<_>>(),
    })
}

fn word(trust: Trust) -> &'static str {
    match trust {
        Trust::Harmless => "harmless",
        Trust::Unknown => "unknown",
        Trust::Dangerous => "dangerous",
    }
}
