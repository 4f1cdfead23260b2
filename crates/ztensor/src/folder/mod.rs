//! What models lie in a folder, by what its files hold: a model is one file, a shard index with its shards, or the parts of a split one. Other files are
//! nobody's business here. Folders inside it are looked into, as diffusers lays its models out.

mod classify;
mod walk;

pub(crate) use walk::{Depth, files};

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};
use classify::Content;

/// Models that an error names.
const NAMED: usize = 20;

/// A model in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    name: String,
    files: Vec<PathBuf>,
    kind: Composition,
}

/// How the files of a model belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Composition {
    /// The first one says so.
    Stated,
    /// By their names only, which count so many.
    Named { count: usize },
}

impl Model {
    /// A single file.
    pub fn file(path: impl Into<PathBuf>) -> Model {
        let path = path.into();
        Model { name: path.display().to_string(), files: vec![path], kind: Composition::Stated }
    }

    /// The model's name: the path of its first file, relative to the folder, with slashes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that is opened.
    pub fn path(&self) -> &Path {
        self.files.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// All files: a shard index and its shards, or the parts of a split model, as far as they are there.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The files that make up one model although none of them says so.
    pub(crate) fn parts(&self) -> Result<Option<&[PathBuf]>> {
        match self.kind {
            Composition::Stated => Ok(None),
            Composition::Named { count } if count == self.files.len() => Ok(Some(&self.files)),
            Composition::Named { count } => Err(Error::new(
                Kind::NotFound,
                format!("{} of {count} parts of this model are missing", count - self.files.len()),
            )
            .with_path(self.path())
            .with_hint("Download the missing files into the same folder.")),
        }
    }
}

/// The models in a folder and in the folders in it, by name.
pub fn models(folder: &Path) -> Result<Vec<Model>> {
    let mut folders: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for path in files(folder, Depth::Deep)? {
        folders.entry(folder_of(&path)).or_default().push(path);
    }
    let mut found = Vec::new();
    for files in folders.into_values() {
        found.extend(models_among(folder, &files));
    }
    Ok(found)
}

/// All files of a folder and of the folders in it, by ascending path, but for hidden ones.
pub fn all_files(folder: &Path) -> Result<Vec<PathBuf>> {
    files(folder, Depth::Deep)
}

/// The one model in a folder.
pub fn only_model(folder: &Path) -> Result<Model> {
    let mut models = models(folder)?;
    match (models.pop(), models.len()) {
        (Some(model), 0) => Ok(model),
        (None, _) => Err(Error::new(Kind::NotFound, "there is no model in this folder")
            .with_path(folder)
            .with_hint("Readable are .zt, .safetensors, .pt/.pth/.bin, .gguf, .npz/.npy, .onnx and .h5/.keras; the content decides, not the name.")),
        (Some(last), more) => {
            models.push(last);
            let mut names: Vec<String> =
                models.iter().take(NAMED).map(|model| format!("\"{}\"", model.name)).collect();
            if names.len() < models.len() {
                names.push("…".to_owned());
            }
            Err(Error::argument(format!("there are {} models in this folder: {}", more + 1, names.join(", ")))
                .with_path(folder)
                .with_hint("Open one of them, by its path."))
        }
    }
}

/// The models among the files of one folder.
fn models_among(root: &Path, files: &[PathBuf]) -> Vec<Model> {
    let mut claimed: HashSet<PathBuf> = HashSet::new();
    let mut found = Vec::new();
    if let Some(distributed) = files.first().and_then(|file| distributed(&folder_of(file), files)) {
        claimed.extend(distributed.files.iter().cloned());
        found.push(distributed);
    }
    let others = files.iter().filter(|path| !claimed.contains(*path));
    let contents: Vec<(&PathBuf, Content)> =
        others.filter_map(|path| Some((path, classify::classify(path)?))).collect();
    for (path, content) in &contents {
        let Content::Index { shards } = content else { continue };
        let folder = folder_of(path);
        let places = |shard: &String| [folder.join(shard), folder.join(format!("{shard}.zstn"))];
        let shards = shards.iter().filter_map(|shard| places(shard).into_iter().find(|path| path.is_file()));
        let shards: Vec<PathBuf> = shards.collect();
        claimed.insert((*path).clone());
        if !shards.is_empty() {
            claimed.extend(shards.iter().cloned());
            let files = std::iter::once((*path).clone()).chain(shards).collect();
            found.push(Model { name: String::new(), files, kind: Composition::Stated });
        }
    }
    let mut splits: BTreeMap<(String, usize), Model> = BTreeMap::new();
    for (path, content) in contents.into_iter().filter(|(path, _)| !claimed.contains(*path)) {
        let (true, Some(place)) = (content.may_be_split(), split_name(path)) else {
            found.push(Model { name: String::new(), files: vec![path.clone()], kind: Composition::Stated });
            continue;
        };
        let kind = match content {
            Content::Gguf => Composition::Stated,
            _ => Composition::Named { count: place.1 },
        };
        let group = splits.entry(place).or_insert_with(|| Model { name: String::new(), files: vec![], kind });
        group.files.push(path.clone());
    }
    found.extend(splits.into_values());
    found.sort_by(|one, other| one.files.cmp(&other.files));
    for model in &mut found {
        let path = model.path();
        let parts = path.strip_prefix(root).unwrap_or(path).iter();
        model.name = parts.map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/");
    }
    found
}

/// The model of a folder that `torch.distributed.checkpoint` wrote: a hidden file that describes the others.
#[cfg(feature = "pytorch")]
fn distributed(folder: &Path, files: &[PathBuf]) -> Option<Model> {
    let metadata = folder.join(crate::formats::dcp::FILE);
    if !metadata.is_file() || !classify::is_distributed(&metadata) {
        return None;
    }
    let of_ranks = files.iter().filter(|path| path.extension().is_some_and(|end| end == "distcp")).cloned();
    let files = std::iter::once(metadata).chain(of_ranks).collect();
    Some(Model { name: String::new(), files, kind: Composition::Stated })
}

#[cfg(not(feature = "pytorch"))]
fn distributed(_folder: &Path, _files: &[PathBuf]) -> Option<Model> {
    None
}

/// What the parts of a split model have in common: the name without its number, and how many there are. `None` for other names.
fn split_name(path: &Path) -> Option<(String, usize)> {
    let name = path.file_name()?.to_str()?;
    let (front, count_and_end) = name.rsplit_once("-of-")?;
    let (stem, number) = front.rsplit_once('-')?;
    let digits = count_and_end.bytes().take_while(u8::is_ascii_digit).count();
    let (count, end) = count_and_end.split_at(digits);
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(number) || !is_number(count) {
        return None;
    }
    let count: usize = count.parse().ok()?;
    (count > 1).then(|| (format!("{stem}-{end}"), count))
}

/// The folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Whether a name is one that a file of a model may have: relative, without parts that lead elsewhere or hide it.
pub(crate) fn is_plain(name: &str) -> bool {
    let unsafe_letter = |letter: char| letter.is_control() || matches!(letter, '\\' | ':');
    !name.contains(unsafe_letter) && name.split('/').all(|part| !part.is_empty() && !part.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_their_numbers() {
        let place = |name: &str| split_name(Path::new(name));
        let expected = Some(("model-.safetensors".to_owned(), 3));
        assert_eq!(place("a/model-00001-of-00003.safetensors"), expected);
        assert_eq!(place("a/model-00003-of-00003.safetensors"), expected);
        for other in ["model.safetensors", "model-1-of-3.gguf", "model-00001-of-00001.gguf", "00001-of-00002"]
        {
            assert_eq!(place(other), None, "{other}");
        }
    }
}
