//! `ztensor download-hf`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use ztensor::{Error, Kind};
use ztensor_remote::{Download, current_options};

use super::selection::matches;
use crate::display::size;
use crate::progress::Progress;
use crate::results::JsonOption;
use crate::{Outcome, Result};

#[derive(Args)]
pub(crate) struct DownloadHf {
    /// The repository: OWNER/NAME, or datasets/OWNER/NAME
    #[arg(value_name = "OWNER/NAME")]
    repository: String,
    /// Files of it, by name or by globs such as *.safetensors [default: all]
    files: Vec<String>,
    /// A branch, a tag or a commit [default: main]
    #[arg(long)]
    revision: Option<String>,
    /// A folder for the files [default: the cache of the Hugging Face tools, where transformers finds them]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    json: JsonOption,
}

impl DownloadHf {
    pub(crate) fn run(self) -> Result {
        let options = current_options();
        let download =
            Download::new(&self.repository, self.revision.as_deref(), self.output.as_deref(), &options)?;
        let mut results = self.json.results();
        for file in self.wanted(&download)? {
            let mut progress = None;
            let done = download.fetch(&file, &mut |done, length| {
                progress.get_or_insert_with(|| Progress::new(&file, length)).reach(done);
                Ok(())
            })?;
            drop(progress);
            let state = match (done.fetched, done.bytes) {
                (0, 1..) => "is there already".to_owned(),
                (fetched, bytes) if fetched < bytes => {
                    format!("{}, of which {} were there already", size(bytes), size(bytes - fetched))
                }
                (_, bytes) => size(bytes),
            };
            let checked = if done.sha256.is_some() { ", sha256 verified" } else { "" };
            results.add(
                &format!("{} ({state}{checked})", done.path.display()),
                json!({
                    "file": done.file, "path": done.path.display().to_string(), "bytes": done.bytes,
                    "fetched": done.fetched, "commit": done.commit, "sha256": done.sha256,
                }),
            )?;
        }
        results.finish()?;
        Ok(Outcome::Done)
    }

    /// The names of the files, in the hub's order.
    fn wanted(&self, download: &Download<'_>) -> Result<Vec<String>> {
        let is_glob = |name: &String| name.contains(['*', '?', '[']);
        if !self.files.is_empty() && !self.files.iter().any(is_glob) {
            return Ok(self.files.clone());
        }
        let mut listed = download.list()?;
        if let Some(none) = self.files.iter().find(|glob| !listed.iter().any(|file| matches(glob, file))) {
            let message = format!("{} has no file \"{none}\"", self.repository);
            return Err(Error::new(Kind::NotFound, message).with_hint("Check the name.").into());
        }
        if !self.files.is_empty() {
            listed.retain(|file| self.files.iter().any(|glob| matches(glob, file)));
        }
        match listed.is_empty() {
            true => Err(Error::new(Kind::NotFound, format!("{} has no files", self.repository)).into()),
            false => Ok(listed),
        }
    }
}
