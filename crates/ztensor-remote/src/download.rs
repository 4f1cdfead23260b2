//! Downloads of repositories of the Hugging Face Hub, into the cache that `huggingface_hub` and transformers share or into a folder. A download
//! that was interrupted goes on where it was; a file appears under its name when it is complete and its digest was found right.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sha2::{Digest, Sha256};
use ztensor::{Error, Kind, Output, Partial, Result, Source};

use crate::file::open_hub;
use crate::location::{HubFile, Repository};
use crate::options::StorageOptions;
use crate::origin::hub::{Hub, hub_folder};
use crate::process;

/// Bytes that are read and written at once.
const STEP: usize = 8 << 20;

/// A repository at a revision, and where its files go. All files are of one commit: the one that the revision stood for at the first request.
pub struct Download<'a> {
    repository: Repository,
    /// A folder that gets the files; without one they go to the cache of the Hugging Face tools.
    folder: Option<&'a Path>,
    options: &'a StorageOptions,
    commit: OnceLock<String>,
}

/// A file that is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Downloaded {
    /// Its name in the repository.
    pub file: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// How many of them were fetched; the others were here before.
    pub fetched: u64,
    /// The commit that the revision stands for.
    pub commit: String,
    /// The digest, where the hub states one.
    pub sha256: Option<String>,
}

/// Is told how many bytes of how many are there; an error ends the download.
pub type Watch<'a> = &'a mut dyn FnMut(u64, u64) -> Result<()>;

impl<'a> Download<'a> {
    /// `repository` is `owner/name`, `datasets/owner/name` or the same with `hf://` and `@revision`; `revision` a branch, a tag or a commit, `main` unless
    /// the repository's name has one. Without a folder the files go to the cache of the Hugging Face tools.
    pub fn new(
        repository: &str,
        revision: Option<&str>,
        folder: Option<&'a Path>,
        options: &'a StorageOptions,
    ) -> Result<Self> {
        let mut found = Repository::parse(repository)
            .ok_or_else(|| Error::argument(format!("\"{repository}\" is no repository; write owner/name")))?;
        if let Some(revision) = revision {
            found.revision = revision.to_string();
        }
        // The revision names a file of the cache.
        if !is_plain(&found.revision) {
            return Err(Error::argument(format!("\"{}\" is no revision", found.revision))
                .with_hint("Name a branch, a tag or a commit."));
        }
        Ok(Download { repository: found, folder, options, commit: OnceLock::new() })
    }

    /// The names of all files, as the hub lists them.
    pub fn list(&self) -> Result<Vec<String>> {
        let hub = Hub::new(self.file(""), self.options)?;
        let listing = process::block_on(crate::fetch::insist(|| hub.list()))??;
        self.pin(&listing.commit)?;
        // Names become paths.
        match listing.files.iter().find(|file| !is_plain(file)) {
            Some(odd) => Err(Error::malformed(format!(
                "the hub lists a file \"{odd}\", a name that is not written to disk"
            ))),
            None => Ok(listing.files),
        }
    }

    /// Downloads one file.
    pub fn fetch(&self, file: &str, watch: Watch<'_>) -> Result<Downloaded> {
        if !is_plain(file) {
            return Err(Error::argument(format!("\"{file}\" is no name of a file in a repository")));
        }
        let (hub, source) = open_hub(self.file(file), self.options)?;
        let at = |error: Error| error.with_path(Path::new(&hub.name()));
        let stated =
            hub.stated().ok_or_else(|| at(Error::new(Kind::Io, "the hub did not describe the file")))?;
        let commit = self.pin(&stated.commit)?;
        let tag = stated.tag.filter(|tag| is_plain_tag(tag)).ok_or_else(|| {
            at(Error::new(Kind::Io, "the hub did not say which state of the file it sends"))
        })?;
        let sha256 = is_sha256(&tag).then(|| tag.to_ascii_lowercase());
        let place = match self.folder {
            Some(folder) => Place::in_folder(folder, file, &tag),
            None => Place::in_cache(&self.repository, file, commit, &tag)?,
        };
        let mut fetched = 0;
        if !place.holds(source.len(), sha256.as_deref(), watch)? {
            fetched = place.fill(&source, sha256.as_deref(), watch).map_err(at)?;
        }
        place.publish(&self.repository.revision, commit)?;
        Ok(Downloaded {
            file: file.to_string(),
            path: place.path,
            bytes: source.len(),
            fetched,
            commit: commit.to_string(),
            sha256,
        })
    }

    /// A file at the commit, once that is known.
    fn file(&self, file: &str) -> HubFile {
        let revision = self.commit.get().unwrap_or(&self.repository.revision).clone();
        HubFile { repository: self.repository.name.clone(), revision, file: file.to_string() }
    }

    /// Keeps the commit that the revision stands for.
    fn pin(&self, commit: &str) -> Result<&str> {
        if !is_plain_tag(commit) {
            return Err(Error::malformed(format!("the hub names a commit \"{commit}\", which is none")));
        }
        let pinned = self.commit.get_or_init(|| commit.to_string());
        match pinned == commit {
            true => Ok(pinned),
            false => {
                Err(Error::new(Kind::Io, format!("the hub answers for the commit {commit}, not {pinned}"))
                    .with_hint("Try again."))
            }
        }
    }
}

/// Where a file goes.
struct Place {
    /// The name by which programs open it.
    path: PathBuf,
    /// The file with the bytes; in a cache `path` is a link to it.
    blob: PathBuf,
    /// What is here of it before it is complete. Its name tells states of the file apart, and from what other programs leave.
    partial: PathBuf,
    /// The folder of the repository in a cache.
    cached: Option<PathBuf>,
}

impl Place {
    fn in_folder(folder: &Path, file: &str, tag: &str) -> Place {
        let path = folder.join(file);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let partial = path.with_file_name(format!(".{name}.{}.incomplete", &tag[..tag.len().min(16)]));
        Place { blob: path.clone(), path, partial, cached: None }
    }

    /// The layout that `huggingface_hub` documents: blobs by their tags, and links to them for every commit.
    fn in_cache(repository: &Repository, file: &str, commit: &str, tag: &str) -> Result<Place> {
        let cache = std::env::var_os("HF_HUB_CACHE").or_else(|| std::env::var_os("HUGGINGFACE_HUB_CACHE"));
        let cache =
            cache.map(PathBuf::from).or_else(|| Some(hub_folder()?.join("hub"))).ok_or_else(|| {
                Error::argument("there is no home folder to keep a cache in")
                    .with_hint("Set HF_HOME, or name a folder.")
            })?;
        let (kind, name) = match repository.name.split_once('/') {
            Some((kind @ ("datasets" | "spaces"), name)) => (kind, name),
            _ => ("models", repository.name.as_str()),
        };
        let folder = cache.join(format!("{kind}--{}", name.replace('/', "--")));
        let blobs = folder.join("blobs");
        Ok(Place {
            path: folder.join("snapshots").join(commit).join(file),
            blob: blobs.join(tag),
            partial: blobs.join(format!("{tag}.ztensor.incomplete")),
            cached: Some(folder),
        })
    }

    /// Whether the file is here already. In a cache its name is its digest; in a folder it may be another of the same name.
    fn holds(&self, length: u64, sha256: Option<&str>, watch: Watch<'_>) -> Result<bool> {
        let Ok(about) = std::fs::metadata(&self.blob) else { return Ok(false) };
        if !about.is_file() || about.len() != length {
            return Ok(false);
        }
        if self.cached.is_some() {
            return Ok(true);
        }
        // Nothing tells a file without a digest from another of its length: it is fetched again, and small.
        let Some(sha256) = sha256 else { return Ok(false) };
        let fail = |cause| Error::io("cannot read the file that is here", &self.blob, cause);
        let mut file = File::open(&self.blob).map_err(fail)?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; STEP];
        let mut done = 0;
        loop {
            match file.read(&mut buffer).map_err(fail)? {
                0 => return Ok(hex(hash) == sha256),
                count => {
                    hash.update(&buffer[..count]);
                    done += count as u64;
                    watch(done, length)?;
                }
            }
        }
    }

    /// Downloads what is missing; says how much that was.
    fn fill(&self, source: &Source, sha256: Option<&str>, watch: Watch<'_>) -> Result<u64> {
        let length = source.len();
        let mut partial = Partial::open(&self.partial)?;
        // What a crash has left may be other bytes than were written: without a digest nobody would notice.
        if sha256.is_none() || partial.length() > length {
            partial.clear()?;
        }
        let before = partial.length();
        let mut hash = Sha256::new();
        let mut buffer = vec![0; length.min(STEP as u64) as usize];
        let mut here = 0;
        while here < length {
            // A piece is of what is here already, or of what is not.
            let end = if here < before { before } else { length };
            let count = (end - here).min(buffer.len() as u64) as usize;
            let piece = &mut buffer[..count];
            if here < before {
                partial.read_into(here, piece)?;
            } else {
                if here == before {
                    source.announce(std::iter::once(here..length).collect());
                }
                source.read_into(here, piece)?;
                partial.append(piece)?;
            }
            hash.update(piece);
            here += count as u64;
            watch(here, length)?;
        }
        let found = hex(hash);
        if sha256.is_some_and(|expected| found != expected) {
            // What is here is of no use, and would be taken for the beginning next time.
            partial.remove()?;
            let message = format!("the download has the sha256 {found}, not the one that the hub states");
            return Err(Error::new(Kind::Checksum, message).with_hint("Download it again."));
        }
        partial.publish(&self.blob)?;
        Ok(length - before)
    }

    /// Makes a complete file known under its name.
    fn publish(&self, revision: &str, commit: &str) -> Result<()> {
        let Some(folder) = &self.cached else { return Ok(()) };
        let depth = self.path.strip_prefix(folder).map_or(0, |inside| inside.components().count());
        let blob = self.blob.file_name().unwrap_or_default();
        let up: PathBuf = std::iter::repeat_n("..", depth.saturating_sub(1)).collect();
        ztensor::name_file(&self.path, &up.join("blobs").join(blob))?;
        // A commit stands for itself; names are remembered with the commit that they had.
        if revision == commit {
            return Ok(());
        }
        let reference = folder.join("refs").join(revision);
        if std::fs::read_to_string(&reference).is_ok_and(|known| known == commit) {
            return Ok(());
        }
        if let Some(parent) = reference.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|cause| Error::io("cannot make the folder", parent, cause))?;
        }
        let mut output = Output::create(&reference)?;
        output.write(commit.as_bytes())?;
        output.publish(false)
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a name from the hub may become a path in a folder: it leads nowhere else, and not into what git keeps there.
fn is_plain(name: &str) -> bool {
    let plain =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.eq_ignore_ascii_case(".git");
    !name.contains(['\\', '\0', ':']) && name.split('/').all(plain)
}

fn is_plain_tag(tag: &str) -> bool {
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-';
    !tag.is_empty() && tag.len() <= 128 && tag.bytes().all(plain)
}

fn is_sha256(tag: &str) -> bool {
    tag.len() == 64 && tag.bytes().all(|letter| letter.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["model.safetensors", "a/b.json", ".gitattributes", "refs/pr/1", "..a"] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["", "/etc/passwd", "a//b", "../a", "a/../b", "C:\\a", "C:a", "a/", ".git/config", "a\0"]
        {
            assert!(!is_plain(name), "{name}");
        }
        assert!(!is_plain_tag("../x") && !is_plain_tag("") && is_plain_tag("0123abcdef"));
        let options = StorageOptions::default();
        for revision in ["../../x", "", "/x"] {
            assert!(Download::new("owner/name", Some(revision), None, &options).is_err(), "{revision}");
        }
    }
}
