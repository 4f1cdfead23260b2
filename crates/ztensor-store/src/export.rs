//! A checkpoint as a file by itself, and back: an archive (`spec/archive.md`) of all its files. What an archive has no place for (modes, links, folders, the
//! user's metadata) is in an attribute beside it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::content::given::Given;
use crate::content::{AddOptions, AddStats};
use crate::record::{File, FileKind};
use crate::store::Store;
use ztensor::archive::{ArchiveOptions, Stats, archive_files};
use ztensor::{Attributes, Error, OpenOptions, Result, Value};

/// The attribute of an exported checkpoint.
const ATTRIBUTE: &str = "ztensor.checkpoint";
/// The attribute's version.
const VERSION: u64 = 1;

impl Store {
    /// Writes a checkpoint as an archive that needs no store. It opens like the checkpoint, `ztensor restore` restores its files, and
    /// [`Store::import`] takes it back.
    pub fn export(
        &self,
        name: &str,
        output: &Path,
        options: &ArchiveOptions,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Stats> {
        let checkpoint = self.checkpoint(name)?;
        let manifest = checkpoint.manifest();
        let mut files = Vec::new();
        for file in &manifest.files {
            if let FileKind::Regular { .. } = file.kind {
                if file.path.split('/').any(|part| part.starts_with('.')) {
                    let what = format!("an archive has no place for hidden files, such as \"{}\"", file.path);
                    return Err(Error::argument(what).with_hint("Restore the checkpoint with get instead."));
                }
                files.push((file.path.clone(), Arc::new(checkpoint.source(&file.path)?)));
            }
        }
        let mut about = Attributes::new();
        about.insert("version".into(), VERSION.into());
        about.insert("name".into(), Value::from(name));
        about.insert("single".into(), Value::Bool(manifest.single));
        about.insert("metadata".into(), Value::Map(manifest.metadata.clone()));
        about.insert("files".into(), Value::List(manifest.files.iter().map(described).collect()));
        let attributes = Attributes::from_iter([(ATTRIBUTE.to_owned(), Value::Map(about))]);
        archive_files(files, attributes, output, options, progress)
    }

    /// Adds what an archive or a delta holds: an exported checkpoint as it was, or the original of any other. The metadata of an exported checkpoint is
    /// kept unless `options` have some.
    pub fn import(
        &self,
        archive: &Path,
        name: &str,
        options: &AddOptions,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<AddStats> {
        let originals = OpenOptions::default().originals(archive)?;
        let mut options = options.clone();
        let mut given =
            Given { files: originals.files, others: Vec::new(), modes: HashMap::new(), single: false };
        match originals.attributes.get(ATTRIBUTE) {
            Some(Value::Map(about)) => {
                let own = take_back(about, &mut given).map_err(|error| error.with_path(archive))?;
                if options.metadata.is_empty() {
                    options.metadata = own;
                }
            }
            _ => given.single = given.files.len() == 1,
        }
        if let (true, [(file, _)]) = (given.single, given.files.as_mut_slice())
            && file.is_empty()
        {
            *file = plain_name(archive)?;
        }
        self.add_given(given, name, &options, progress)
    }
}

/// The name of a file whose archive has another.
fn plain_name(archive: &Path) -> Result<String> {
    let name = archive.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Error::argument("the file's name is no text").with_path(archive))?;
    let bare = [".zstn", ".z4dm"].iter().find_map(|end| name.strip_suffix(end));
    Ok(bare.filter(|bare| !bare.is_empty()).unwrap_or(name).to_owned())
}

fn described(file: &File) -> Value {
    let path = Value::from(file.path.as_str());
    Value::List(match &file.kind {
        FileKind::Regular { mode, .. } => vec![path, 0u64.into(), u64::from(*mode).into()],
        FileKind::Folder { mode } => vec![path, 1u64.into(), u64::from(*mode).into()],
        FileKind::Link { target } => vec![path, 2u64.into(), Value::from(target.as_str())],
    })
}

/// Takes what is known of the files from the attribute. Returns the user's metadata.
fn take_back(about: &Attributes, given: &mut Given) -> Result<Attributes> {
    let damaged = || Error::malformed(format!("the attribute \"{ATTRIBUTE}\" is damaged"));
    if about.get("version").and_then(Value::as_u64) != Some(VERSION) {
        return Err(
            Error::unsupported("the checkpoint was exported by a later release").with_hint("Update ztensor.")
        );
    }
    let (Some(Value::Bool(single)), Some(Value::List(files))) = (about.get("single"), about.get("files"))
    else {
        return Err(damaged());
    };
    given.single = *single;
    for file in files {
        let Value::List(fields) = file else { return Err(damaged()) };
        let [path, kind, value] = fields.as_slice() else { return Err(damaged()) };
        let path = path.as_text().ok_or_else(damaged)?.to_owned();
        let mode =
            || value.as_u64().filter(|mode| *mode <= 0o777).map(|mode| mode as u32).ok_or_else(damaged);
        match kind.as_u64() {
            Some(0) => drop(given.modes.insert(path, mode()?)),
            Some(1) => given.others.push((path, FileKind::Folder { mode: mode()? })),
            Some(2) => {
                let target = value.as_text().ok_or_else(damaged)?.to_owned();
                given.others.push((path, FileKind::Link { target }));
            }
            _ => return Err(damaged()),
        }
    }
    if let (true, [(name, _)], Some(path)) = (*single, given.files.as_mut_slice(), given.modes.keys().next())
    {
        name.clone_from(path);
    }
    match about.get("metadata") {
        Some(Value::Map(metadata)) => Ok(metadata.clone()),
        _ => Err(damaged()),
    }
}
