//! `ztensor delta log`: the tree that the deltas of a folder make.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value as Json, json};
use ztensor::delta::{Link, lineage};

use crate::commands::bases::Bases;
use crate::display::{counted, say, say_json, size};
use crate::{Failure, Outcome, Result};

#[derive(Args)]
pub(super) struct Log {
    /// The folder
    folder: PathBuf,
    #[command(flatten)]
    bases: Bases,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Log {
    pub(super) fn run(self) -> Result {
        if !self.folder.exists() {
            let message = format!("\"{}\": there is no such folder", self.folder.display());
            return Err(Failure::about(&self.folder, "not_found", message));
        }
        if !self.folder.is_dir() {
            return Err(Failure::new(format!("\"{}\" is not a folder", self.folder.display())));
        }
        let links = lineage(&self.folder, self.bases.paths())?;
        if self.json {
            return say_json(&links.iter().map(|link| document(link, &links)).collect::<Vec<_>>().into());
        }
        let mut lines = Vec::new();
        let roots = (0..links.len()).filter(|number| links[*number].base.is_none());
        for root in roots {
            match missing(&links[root]) {
                Some(missing) => {
                    lines.push((missing, String::new()));
                    draw(&links, root, "└─ ", "   ", &mut lines);
                }
                None => draw(&links, root, "", "", &mut lines),
            }
        }
        let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
        let width = width.min(60);
        for (name, about) in lines {
            say(format!("{name:width$}  {about}").trim_end())?;
        }
        let here: Vec<&Link> = links.iter().filter(|link| !link.elsewhere).collect();
        let stored: u64 = here.iter().map(|link| link.stored).sum();
        let held: u64 = here.iter().map(|link| held(link)).sum();
        say("")?;
        say(&format!("{}, {} in {}", counted(here.len(), "model"), size(held), size(stored)))?;
        Ok(Outcome::Done)
    }
}

/// Bytes that a model has when it is restored.
fn held(link: &Link) -> u64 {
    link.archive.as_ref().map_or(link.stored, |archive| archive.length)
}

fn about(link: &Link) -> String {
    match &link.archive {
        None => size(link.stored),
        Some(archive) => {
            let kind = if !archive.bases.is_empty() { "delta" } else { "archive" };
            format!("{} of {}, {kind}", size(link.stored), size(archive.length))
        }
    }
}

/// The base that a delta needs and that is not there.
fn missing(link: &Link) -> Option<String> {
    let base = link.archive.as_ref()?.bases.first().filter(|_| link.base.is_none())?;
    let name = if base.name.is_empty() { "a file" } else { &base.name };
    Some(format!("(missing: {name}, {} bytes, sha256 {})", base.length, base.sha256))
}

/// One line for a model and those below it.
fn draw(links: &[Link], number: usize, front: &str, below: &str, lines: &mut Vec<(String, String)>) {
    let link = &links[number];
    let name = match link.elsewhere {
        true => link.model.path().display().to_string(),
        false => link.model.name().to_owned(),
    };
    lines.push((format!("{front}{name}"), about(link)));
    let children: Vec<usize> = (0..links.len()).filter(|child| links[*child].base == Some(number)).collect();
    for (place, child) in children.iter().enumerate() {
        let (branch, rest) =
            if place + 1 == children.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        draw(links, *child, &format!("{below}{branch}"), &format!("{below}{rest}"), lines);
    }
}

fn document(link: &Link, links: &[Link]) -> Json {
    let archive = link.archive.as_ref();
    json!({
        "path": link.model.path().display().to_string(),
        "name": link.model.name(),
        "elsewhere": link.elsewhere,
        "stored_bytes": link.stored,
        "original_bytes": held(link),
        "sha256": archive.map(|archive| archive.sha256.clone()),
        "base": archive.and_then(|archive| archive.bases.first()).map(|base| json!({
            "name": base.name, "bytes": base.length, "sha256": base.sha256,
            "path": link.base.and_then(|base| links.get(base)).map(|base| base.model.path().display().to_string()),
        })),
    })
}
