//! `ztensor verify`: what a file stores to check itself by, and where it stores nothing, a digest that the user has from elsewhere.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value as Json, json};
use ztensor::archive::digest;
use ztensor::folder::Model;
use ztensor::{Error, Kind, Reader};

use super::bases::{Bases, expand};
use super::manifest::Manifest;
use crate::display::{counted, note_unreadable, say, say_json, tensors};
use crate::{Failure, Outcome, Result};

#[derive(Args)]
pub(crate) struct Verify {
    /// Files of any readable format, and folders of them
    #[arg(required_unless_present = "manifest")]
    files: Vec<PathBuf>,
    /// The sha256 that the file should have
    #[arg(long, value_name = "HEX")]
    sha256: Option<String>,
    /// Check every file that a list of digests names, as `ztensor manifest` and sha256sum write them
    #[arg(long, value_name = "PATH")]
    manifest: Option<PathBuf>,
    #[command(flatten)]
    bases: Bases,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What came of one model.
struct Checked {
    tensors: usize,
    /// Stored checksums that were compared.
    checksums: usize,
    failures: Vec<(String, Error)>,
}

impl Verify {
    pub(crate) fn run(self) -> Result {
        if let Some(expected) = &self.sha256 {
            return self.against_digest(expected);
        }
        let mut documents = Vec::new();
        let models = expand(&self.files)?;
        let mut listed = Listed::new(&models);
        let mut outcome = match &self.manifest {
            Some(manifest) => self.against_manifest(manifest, &mut listed, &mut documents)?,
            None => Outcome::Done,
        };
        for (model, listed) in models.iter().zip(listed.found) {
            outcome = outcome.max(match listed {
                // What became of it has been said.
                Some(Comparison::Failed) => continue,
                Some(Comparison::Good(digest)) => self.model(model, Some(&digest), &mut documents)?,
                None => self.model(model, None, &mut documents)?,
            });
        }
        if self.json {
            say_json(&documents.into())?;
        }
        Ok(outcome)
    }

    /// Checks a model, of which a list may have given the digest that it has.
    fn model(&self, model: &Model, listed: Option<&str>, documents: &mut Vec<Json>) -> Result {
        let file = model.path();
        let checked = match self.bases.open_model(model) {
            Ok(reader) => self.check(file, &reader),
            Err(error) => {
                note_unreadable(file, &error, self.json.then_some(documents));
                return Ok(Outcome::Failed);
            }
        };
        let failures = &checked.failures;
        if self.json {
            let mut document = json!({
                "path": file.display().to_string(),
                "tensors": checked.tensors,
                "checksums": checked.checksums,
                "failures": failures.iter().map(|(name, error)| json!({
                    "name": name, "kind": error.kind().name(), "reason": error.message(),
                })).collect::<Vec<_>>(),
            });
            if let Some(digest) = listed {
                document["sha256"] = digest.into();
                document["expected"] = digest.into();
                document["good"] = true.into();
            }
            documents.push(document);
        } else {
            for (_, error) in failures {
                say(&format!("{}: {}", file.display(), error.told(ztensor::Caller::Shell)))?;
            }
            let verdict = match (listed, failures.is_empty()) {
                (Some(_), true) if checked.checksums == 0 => {
                    format!("good; {}; sha256 as listed", tensors(checked.tensors))
                }
                (Some(_), _) => format!("{}; sha256 as listed", verdict(&checked)),
                (None, _) => verdict(&checked),
            };
            say(&format!("{}: {verdict}", file.display()))?;
        }
        Ok(if failures.is_empty() { Outcome::Done } else { Outcome::Different })
    }

    fn check(&self, file: &Path, reader: &Reader) -> Checked {
        let mut failures = reader.verify_all();
        let archived = reader.archived().is_some();
        if archived && let Err(error) = self.bases.options().verify_archive(file) {
            failures.push((file.display().to_string(), error));
        }
        let components = reader.objects().flat_map(|(_, object)| &object.components);
        let digests = components.filter(|(_, component)| component.digest.is_some()).count();
        let checksums = digests + reader.index().file_digests.len() + usize::from(archived);
        Checked { tensors: reader.len(), checksums, failures }
    }

    /// Compares one file with a digest.
    fn against_digest(&self, expected: &str) -> Result {
        let [file] = &self.files[..] else {
            return Err(Failure::new("--sha256 is the digest of one file; for several use --manifest"));
        };
        let expected = expected.trim().to_ascii_lowercase();
        if expected.len() != 64 || !expected.bytes().all(|letter| letter.is_ascii_hexdigit()) {
            return Err(Failure::new("--sha256 takes the 64 hexadecimal digits of a digest"));
        }
        let found = digest(file)?;
        if self.json {
            say_json(
                &json!([{ "path": file.display().to_string(), "sha256": found, "expected": expected, "good": found == expected }]),
            )?;
        } else if found == expected {
            say(&format!("{}: good; sha256 as given", file.display()))?;
        } else {
            say(&format!("{}: another file: its sha256 is {found}, not {expected}", file.display()))?;
        }
        Ok(if found == expected { Outcome::Done } else { Outcome::Different })
    }

    /// Compares the files of a list with the digests in it. Of those that the user named too, only what is wrong is said here.
    fn against_manifest(&self, path: &Path, listed: &mut Listed, documents: &mut Vec<Json>) -> Result {
        let mut outcome = Outcome::Done;
        for (file, expected) in Manifest::read(path)?.files() {
            let found = digest(&file);
            let good = found.as_ref().is_ok_and(|found| found == expected);
            if listed.note(&file, good.then_some(expected)) && good {
                continue;
            }
            match found {
                Err(error) => {
                    outcome = Outcome::Failed;
                    note_unreadable(&file, &error, self.json.then_some(documents));
                }
                Ok(found) => {
                    outcome = outcome.max(if good { Outcome::Done } else { Outcome::Different });
                    match (self.json, good) {
                        (true, _) => documents.push(json!({
                            "path": file.display().to_string(), "sha256": found, "expected": expected, "good": good,
                        })),
                        (false, true) => say(&format!("{}: good; sha256 as listed", file.display()))?,
                        (false, false) => {
                            say(&format!("{}: changed: its sha256 is {found}, not {expected}", file.display()))?;
                        }
                    }
                }
            }
        }
        Ok(outcome)
    }
}

/// How a file compares with the digest in a list.
enum Comparison {
    Good(String),
    Failed,
}

/// Which of the models that the user named stand in a list of digests too.
struct Listed {
    places: HashMap<PathBuf, usize>,
    found: Vec<Option<Comparison>>,
}

impl Listed {
    fn new(models: &[Model]) -> Listed {
        let place = |(number, model): (usize, &Model)| Some((model.path().canonicalize().ok()?, number));
        Listed {
            places: models.iter().enumerate().filter_map(place).collect(),
            found: models.iter().map(|_| None).collect(),
        }
    }

    /// Notes what came of a file in the list: the digest if it is the right one. Returns whether the user named it.
    fn note(&mut self, file: &Path, digest: Option<&str>) -> bool {
        let place = file.canonicalize().ok().and_then(|file| self.places.get(&file));
        let Some(found) = place.and_then(|number| self.found.get_mut(*number)) else { return false };
        *found = Some(digest.map_or(Comparison::Failed, |digest| Comparison::Good(digest.to_owned())));
        true
    }
}

fn verdict(checked: &Checked) -> String {
    let about = tensors(checked.tensors);
    let wrong_base = checked.failures.iter().any(|(_, error)| error.kind() == Kind::WrongBase);
    match (checked.failures.len(), checked.checksums) {
        (0, 0) => format!("readable; {about}; nothing stored to check it against (see `ztensor manifest`)"),
        (0, checksums) => format!("good; {about}, {}", counted(checksums, "checksum")),
        (_, _) if wrong_base => format!("not checked; {about}; the base is not the one that is needed"),
        (failures, checksums) => {
            format!("{failures} damaged; {about}, {}", counted(checksums, "checksum"))
        }
    }
}
