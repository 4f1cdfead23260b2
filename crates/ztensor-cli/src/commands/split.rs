//! `ztensor split`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value as Json, json};
use ztensor::Output;
use ztensor::convert::{everything, file_order, to_safetensors};

use super::bases::Bases;
use super::convert::{skipped, stem};
use super::force::Force;
use super::originals::DeleteOption;
use crate::progress::Progress;
use crate::results::JsonOption;
use crate::{Failure, Outcome, Result};

#[derive(Args)]
pub(crate) struct Split {
    /// The file, of any format; - is standard input
    file: PathBuf,
    /// Folder for the shards [default: beside the file]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Largest size of a shard, such as 5GB or 500MB; a tensor is never cut
    #[arg(short, long, value_name = "SIZE", default_value = "5GB")]
    max_size: String,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    delete: DeleteOption,
    #[command(flatten)]
    json: JsonOption,
    #[command(flatten)]
    force: Force,
}

/// Shards that are of no use without those behind them: a failure, such as a full disk, takes them away again.
#[derive(Default)]
struct Made(Vec<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        for path in &self.0 {
            // What made the command fail is told; a shard that stays is whole and has the name of one.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Split {
    /// Writes safetensors shards and the index that opens them as one, as Hugging Face lays them out.
    pub(crate) fn run(self) -> Result {
        let limit = ztensor::limits::parse_size(&self.max_size).ok_or_else(|| {
            Failure::new(format!("\"{}\" is not a size; write 5GB or 500MiB", self.max_size))
        })?;
        let reader = self.bases.open(&self.file)?;
        super::convert::warn_skipped(&reader, &self.file)?;
        let folder =
            self.output.clone().unwrap_or_else(|| self.file.parent().unwrap_or(Path::new("")).to_path_buf());
        if !folder.as_os_str().is_empty() {
            std::fs::create_dir_all(&folder)?;
        }
        // The index names the shards, as text.
        let stem = match self.file == Path::new("-") {
            true => "model".to_owned(),
            false => stem(&self.file)?.to_string_lossy().into_owned(),
        };
        let mut shards: Vec<Vec<&str>> = vec![Vec::new()];
        let (mut filled, mut total) = (0u64, 0u64);
        for (name, object) in file_order(&reader) {
            let length = object.decoded_length();
            if filled > 0 && filled + length > limit {
                shards.push(Vec::new());
                filled = 0;
            }
            if let Some(shard) = shards.last_mut() {
                shard.push(name);
            }
            filled += length;
            total += length;
        }
        let file_name = |number| format!("{stem}-{:05}-of-{:05}.safetensors", number + 1, shards.len());
        let index_path = folder.join(format!("{stem}.safetensors.index.json"));
        for number in 0..shards.len() {
            self.force.allow_chosen(&folder.join(file_name(number)))?;
        }
        self.force.allow_chosen(&index_path)?;
        let progress = Progress::new("splitting", total);
        let mut made = Made::default();
        let mut weight_map = Map::new();
        for (number, names) in shards.iter().enumerate() {
            let file_name = file_name(number);
            let path = folder.join(&file_name);
            let is_new = !path.exists();
            to_safetensors(&reader, names, &path, None, &mut |bytes| progress.advance(bytes))?;
            made.0.extend(is_new.then_some(path));
            weight_map.extend(names.iter().map(|name| ((*name).to_owned(), Json::from(file_name.as_str()))));
        }
        drop(progress);
        let index = json!({ "metadata": { "total_size": total }, "weight_map": weight_map });
        let mut file = Output::create(&index_path)?;
        file.write(format!("{index:#}\n").as_bytes())?;
        file.publish(false)?;
        made.0.clear();
        self.delete.after_converting(&reader, &self.file, &index_path, &everything(&reader))?;
        let paths = (0..shards.len()).map(|number| folder.join(file_name(number)).display().to_string());
        self.json.tell(
            &format!("{} -> {} shards, {}", self.file.display(), shards.len(), index_path.display()),
            json!({
                "path": self.file.display().to_string(), "index": index_path.display().to_string(),
                "shards": paths.collect::<Vec<_>>(), "bytes": total, "tensors": reader.len(),
                "skipped": skipped(&reader),
            }),
        )?;
        Ok(Outcome::Done)
    }
}
