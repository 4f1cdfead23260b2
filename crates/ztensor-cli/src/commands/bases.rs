//! `--base`, the same for every command that reads a model: it may be a delta.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ztensor::delta::{Candidate, open_bases};
use ztensor::folder::{Model, models};
use ztensor::{OpenOptions, Reader};

use crate::{Failure, Result, limits};

#[derive(Args, Clone, Default)]
pub(crate) struct Bases {
    /// Where the base of a delta is: files and folders, in any order; archives and deltas of it serve as well. Beside the delta it is found without
    #[arg(short, long = "base", value_name = "PATH")]
    paths: Vec<PathBuf>,
}

impl Bases {
    /// As if the user had named these.
    pub(crate) fn of(paths: &[&Path]) -> Bases {
        Bases { paths: paths.iter().map(|path| path.to_path_buf()).collect() }
    }

    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        self.paths.iter().map(|path| Candidate::from(path.as_path())).collect()
    }

    pub(crate) fn options(&self) -> OpenOptions {
        OpenOptions { bases: self.candidates(), ..limits::options() }
    }

    /// Opens a file, or the model in a folder.
    pub(crate) fn open(&self, path: &Path) -> ztensor::Result<Reader> {
        limits::open_with(&self.options(), path)
    }

    /// Opens a model that was found in a folder.
    pub(crate) fn open_model(&self, model: &Model) -> ztensor::Result<Reader> {
        if model.path() == Path::new("-") {
            return self.open(model.path());
        }
        let reader = self.options().open_model(model)?;
        limits::note_unfinished(&reader, model.path());
        Ok(reader)
    }

    /// Opens all of them, each with the help of the others: what a delta is made against.
    pub(crate) fn open_all(&self) -> Result<Vec<Arc<Reader>>> {
        if self.paths.is_empty() {
            return Err(Failure::new("name the model to compare with: --base PATH"));
        }
        let mut bases = self.candidates();
        for base in &mut bases {
            if matches!(base, Candidate::Path(path) if path == Path::new("-")) {
                *base = Arc::new(Bases::default().open(Path::new("-"))?).into();
            }
        }
        let opened = open_bases(&bases, &limits::options())?;
        let paths = opened.iter().filter_map(|base| Some((base, base.sources().first()?.path()?)));
        paths.for_each(|(base, path)| limits::note_unfinished(base, path));
        Ok(opened)
    }
}

/// The models that some paths stand for: files as they are, folders as what lies in them.
pub(crate) fn expand(paths: &[PathBuf]) -> Result<Vec<Model>> {
    let mut found = Vec::new();
    for path in paths {
        if !path.is_dir() {
            found.push(Model::file(path));
            continue;
        }
        let inside = models(path)?;
        if inside.is_empty() {
            return Err(Failure::new(format!("there is no model in \"{}\"", path.display())));
        }
        found.extend(inside);
    }
    Ok(found)
}
