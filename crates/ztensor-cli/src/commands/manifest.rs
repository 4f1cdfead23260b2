//! `ztensor manifest`: a list of digests beside files that store none, in the form that sha256sum reads and writes.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use ztensor::archive::digest;
use ztensor::folder::all_files;
use ztensor::source::is_url;
use ztensor::{Io, Output, Source};

use super::force::{Force, same_file};
use crate::display::{counted, say, say_json};
use crate::progress::Progress;
use crate::{Failure, Outcome, Result, limits};

#[derive(Args)]
pub(crate) struct MakeManifest {
    /// Files, and folders with all files in them
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The list [default: standard output]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl MakeManifest {
    pub(crate) fn run(self) -> Result {
        let mut files = Vec::new();
        for path in &self.files {
            match path.is_dir() {
                true => files.extend(all_files(path)?),
                false => files.push(path.clone()),
            }
        }
        if let Some(output) = &self.output {
            self.force.allow(output)?;
            files.retain(|file| !same_file(file, output));
        }
        let progress = Progress::new(
            "reading",
            files.iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum::<u64>(),
        );
        let mut lines = Vec::with_capacity(files.len());
        for file in files {
            let name = self.name_of(&file)?;
            lines.push((digest(&file)?, name));
            progress.advance(file.metadata().map(|about| about.len()).unwrap_or_default());
        }
        drop(progress);
        let text: String = lines.iter().map(|(digest, name)| format!("{digest}  {name}\n")).collect();
        if let Some(output) = &self.output {
            let mut file = Output::create(output)?;
            file.write(text.as_bytes())?;
            file.publish(false)?;
        }
        match (self.json, &self.output) {
            (true, _) => {
                let entries = lines.iter().map(|(digest, name)| json!({ "path": name, "sha256": digest }));
                say_json(&entries.collect::<Vec<_>>().into())?;
            }
            (false, Some(output)) => {
                say(&format!("{} -> {}", counted(lines.len(), "file"), output.display()))?
            }
            (false, None) => say(text.trim_end())?,
        }
        Ok(Outcome::Done)
    }

    /// How a file is called in the list: relative to the folder of the list, so that both can be moved together.
    fn name_of(&self, file: &Path) -> Result<String> {
        let folder = self.output.as_ref().and_then(|output| folder_of(output).canonicalize().ok());
        let inside = folder
            .and_then(|folder| Some(file.canonicalize().ok()?.strip_prefix(folder).ok()?.to_path_buf()));
        let name = inside.unwrap_or_else(|| file.to_path_buf());
        match name.to_str() {
            Some(name) if !name.contains(['\n', '\r', '\\']) => Ok(name.to_owned()),
            _ => Err(Failure::new(format!("\"{}\" has a name that a list cannot hold", file.display()))),
        }
    }
}

/// A list of digests.
pub(crate) struct Manifest {
    folder: PathBuf,
    lines: Vec<(String, String)>,
}

impl Manifest {
    pub(crate) fn read(path: &Path) -> Result<Manifest> {
        let limits = limits::current();
        let list = Source::open_within(path, Io::Auto, &limits)?;
        if list.len() > limits.header_bytes {
            return Err(Failure::new(format!("\"{}\" is too long for a list of digests", path.display())));
        }
        let bytes = list.bytes(0, list.len())?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| Failure::new(format!("\"{}\" is not a list of digests", path.display())))?;
        let mut lines = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            // sha256sum puts a space or, for binary mode, an asterisk before the name.
            let parsed = line.split_once(' ').map(|(digest, name)| {
                (digest.to_ascii_lowercase(), name.strip_prefix([' ', '*']).unwrap_or(name).to_owned())
            });
            match parsed {
                Some((digest, name))
                    if digest.len() == 64 && digest.bytes().all(|d| d.is_ascii_hexdigit()) =>
                {
                    lines.push((digest, name));
                }
                _ => {
                    return Err(Failure::new(format!(
                        "\"{}\": line {} is not a digest and a name",
                        path.display(),
                        number + 1
                    )));
                }
            }
        }
        if lines.is_empty() {
            return Err(Failure::new(format!("\"{}\" names no file", path.display())));
        }
        Ok(Manifest { folder: folder_of(path), lines })
    }

    /// The files and the digests they should have.
    pub(crate) fn files(&self) -> impl Iterator<Item = (PathBuf, &str)> {
        // A URL leads to the same file from wherever the list lies.
        let place = |name: &String| match is_url(Path::new(name)) {
            true => PathBuf::from(name),
            false => self.folder.join(name),
        };
        self.lines.iter().map(move |(digest, name)| (place(name), digest.as_str()))
    }
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}
