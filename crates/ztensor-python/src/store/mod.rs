//! `Store`: collections of related checkpoints. What the methods report are dicts with the names that `ztensor store … --json` has.

mod parts;
mod reports;
mod snapshot;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use ztensor::archive::ArchiveOptions;
use ztensor::{Effort, Kind, OpenOptions};
use ztensor_store::protocol::GcOptions;
use ztensor_store::{AddOptions, Base, CreateOptions, Keep, Listing, Name};

use crate::attributes;
use crate::classes::limits::{self, Limits};
use crate::classes::reader::Reader;
use crate::errors::{OrRaise, argument};
use crate::network::with_options;
use crate::remote;
use crate::work::{Progress, Work};

pub(crate) use snapshot::Snapshot;

/// The grace period of a new store, in seconds.
const GRACE: f64 = 24.0 * 3600.0;

/// The native half of ztensor.Store.
#[pyclass(frozen, subclass, module = "ztensor._native")]
pub(crate) struct Store {
    store: Arc<ztensor_store::Store>,
    location: PathBuf,
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(
        signature = (location, create=false, *, storage_options=None, grace=GRACE, single_writer=false),
        text_signature = "(location, create=False, *, storage_options=None, grace=86400.0, single_writer=False)"
    )]
    fn new(
        py: Python<'_>,
        location: PathBuf,
        create: bool,
        storage_options: Option<&Bound<'_, PyDict>>,
        grace: f64,
        single_writer: bool,
    ) -> PyResult<Self> {
        let grace = Duration::try_from_secs_f64(grace)
            .map_err(|_| argument("grace is a number of seconds, not below 0"))?;
        let options = CreateOptions { grace, single_writer };
        let open = || match ztensor_store::Store::open(&location) {
            Err(error) if create && error.kind() == Kind::NotFound => {
                ztensor_store::Store::create(&location, &options)
            }
            opened => opened,
        };
        let storage = remote::options(storage_options)?;
        let store = py.work(|| with_options(storage, open));
        Ok(Store { store: Arc::new(store.or_raise()?), location })
    }

    /// Where the store is.
    #[getter]
    fn location(&self) -> &std::path::Path {
        &self.location
    }

    /// Where the store is, as text: a URL stays one.
    #[getter]
    fn address(&self) -> std::borrow::Cow<'_, str> {
        self.location.to_string_lossy()
    }

    /// Adds a file or a folder as a checkpoint.
    #[pyo3(
        signature = (path, name, *, base=Some("auto"), metadata=None, effort=None, dry_run=false, progress=None),
        text_signature = "($self, path, name, *, base='auto', metadata=None, effort=None, dry_run=False, progress=None)"
    )]
    #[allow(clippy::too_many_arguments, reason = "each is an argument of the Python method")]
    fn add<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        name: &str,
        base: Option<&str>,
        metadata: Option<&Bound<'py, PyDict>>,
        effort: Option<&str>,
        dry_run: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = AddOptions { dry_run, ..add_options(base, metadata, effort)? };
        let wanted = Progress::is_wanted(progress.as_ref());
        let total = if wanted { py.work(|| ztensor_store::Store::measure(&path)).or_raise()? } else { 0 };
        let stats = py.interruptible(Progress::new(progress, total), |advance| {
            self.store.add(&path, name, &options, advance)
        })?;
        reports::added(py, name, &stats)
    }

    /// Adds what a snapshot holds as a checkpoint of one file.
    #[pyo3(
        signature = (snapshot, name, *, base=Some("auto"), metadata=None, effort=None),
        text_signature = "($self, snapshot, name, *, base='auto', metadata=None, effort=None)"
    )]
    fn add_snapshot<'py>(
        &self,
        py: Python<'py>,
        snapshot: &Bound<'py, Snapshot>,
        name: &str,
        base: Option<&str>,
        metadata: Option<&Bound<'py, PyDict>>,
        effort: Option<&str>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = add_options(base, metadata, effort)?;
        let file = snapshot.get().file()?;
        let stats = py.interruptible(Progress::default(), |advance| {
            self.store.add_files(vec![file], true, name, &options, advance)
        })?;
        reports::added(py, name, &stats)
    }

    /// Stores tensors of one writer among several as a file of a checkpoint that is to be. Returns what commit_parts needs, the file, the place of each
    /// tensor in it, and what came of it.
    #[pyo3(
        signature = (stem, tensors, name, *, base=Some("auto"), effort=None),
        text_signature = "($self, stem, tensors, name, *, base='auto', effort=None)"
    )]
    fn add_part<'py>(
        &self,
        stem: &str,
        tensors: &Bound<'py, PyDict>,
        name: &str,
        base: Option<&str>,
        effort: Option<&str>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        parts::add(&self.store, stem, tensors, name, &add_options(base, None, effort)?)
    }

    /// Makes what several writers stored, and some files, a checkpoint. These may be differences to base as well.
    #[pyo3(signature = (name, parts, files, *, base=None, metadata=None))]
    fn commit_parts<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        parts: Vec<pyo3::pybacked::PyBackedBytes>,
        files: Vec<(String, pyo3::pybacked::PyBackedBytes)>,
        base: Option<&str>,
        metadata: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        parts::commit(py, &self.store, name, parts, files, &add_options(base, metadata, None)?)
    }

    /// Restores a checkpoint.
    #[pyo3(signature = (name, output, *, progress=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        output: PathBuf,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let total = match Progress::is_wanted(progress.as_ref()) {
            true => py.work(|| self.store.checkpoint(name)).or_raise()?.manifest().logical(),
            false => 0,
        };
        let stats = py.interruptible(Progress::new(progress, total), |advance| {
            self.store.get(name, &output, advance)
        })?;
        reports::restored(py, name, &stats)
    }

    /// Opens a checkpoint, or one file or folder in it.
    #[pyo3(signature = (name, file=None, *, verify=true, limits=None))]
    fn open(
        &self,
        py: Python<'_>,
        name: &str,
        file: Option<&str>,
        verify: bool,
        limits: Option<&Bound<'_, Limits>>,
    ) -> PyResult<Reader> {
        let options = OpenOptions { skip_checksums: !verify, ..OpenOptions::within(&limits::given(limits)) };
        let open = || self.store.checkpoint(name)?.reader(file.unwrap_or_default(), &options);
        Reader::new(py, py.work(open).or_raise()?)
    }

    /// The checkpoints, by name.
    #[pyo3(signature = (run=""))]
    fn list<'py>(&self, py: Python<'py>, run: &str) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.listed(py, run)?.iter().map(|listing| reports::listing(py, listing)).collect()
    }

    /// The names of the checkpoints.
    #[pyo3(signature = (run=""))]
    fn keys(&self, py: Python<'_>, run: &str) -> PyResult<Vec<String>> {
        Ok(self.listed(py, run)?.iter().map(|listing| listing.name.to_string()).collect())
    }

    /// The checkpoints in the order in which they were added.
    #[pyo3(signature = (run=""))]
    fn log<'py>(&self, py: Python<'py>, run: &str) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let mut listed = self.listed(py, run)?;
        // Times are whole seconds; of checkpoints that share one, the numbers at the end of their names tell the order.
        let number = |name: &str| {
            let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
            name[digits..].parse::<u64>().ok()
        };
        listed.sort_by_cached_key(|listing| (listing.time, number(listing.name.as_str())));
        listed.iter().map(|listing| reports::listing(py, listing)).collect()
    }

    /// The checkpoint below a run, or of all, that was added last.
    #[pyo3(signature = (run=""))]
    fn last(&self, py: Python<'_>, run: &str) -> PyResult<Option<String>> {
        let last = py.work(|| self.store.last_of(run)).or_raise()?;
        Ok(last.map(|name| name.to_string()))
    }

    /// What is known of a checkpoint, or of the store itself.
    #[pyo3(signature = (name=None))]
    fn info<'py>(&self, py: Python<'py>, name: Option<&str>) -> PyResult<Bound<'py, PyDict>> {
        match name {
            None => reports::settings(py, self.store.settings()),
            Some(name) => {
                let checkpoint = py.work(|| self.store.checkpoint(name)).or_raise()?;
                reports::checkpoint(py, checkpoint.manifest())
            }
        }
    }

    /// What changed from one checkpoint to another.
    fn diff<'py>(&self, py: Python<'py>, first: &str, second: &str) -> PyResult<Bound<'py, PyDict>> {
        let difference = py.work(|| self.store.diff(first, second)).or_raise()?;
        reports::difference(py, &difference)
    }

    /// How many bytes the checkpoints have and take.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        reports::stats(py, &py.work(|| self.store.stats()).or_raise()?)
    }

    /// Removes checkpoints.
    #[pyo3(signature = (*names))]
    fn remove(&self, py: Python<'_>, names: &Bound<'_, PyTuple>) -> PyResult<()> {
        for name in names.extract::<Vec<String>>()? {
            py.work(|| self.store.remove(&name)).or_raise()?;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Removes the checkpoints of a run that no rule keeps.
    #[pyo3(signature = (run="", *, keep_last=0, keep_every=None, keep_name=None, dry_run=false))]
    fn prune<'py>(
        &self,
        py: Python<'py>,
        run: &str,
        keep_last: usize,
        keep_every: Option<u64>,
        keep_name: Option<&Bound<'py, PyAny>>,
        dry_run: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let names = match keep_name {
            None => Vec::new(),
            Some(one) if one.is_instance_of::<pyo3::types::PyString>() => vec![one.extract()?],
            Some(several) => several.try_iter()?.map(|name| name?.extract()).collect::<PyResult<_>>()?,
        };
        let keep = Keep { last: keep_last, every: keep_every, names };
        let prune = || {
            let before = self.store.stats()?.stored;
            let pruned = self.store.prune(run, &keep, dry_run)?;
            Ok((before, pruned, self.store.stats()?.stored))
        };
        let (before, pruned, after) = py.work(prune).or_raise()?;
        let texts = |names: &[Name]| names.iter().map(Name::to_string).collect::<Vec<_>>();
        let report = PyDict::new(py);
        report.set_item("removed", texts(&pruned.removed))?;
        report.set_item("kept", texts(&pruned.kept))?;
        report.set_item("reanchored", texts(&pruned.reanchored))?;
        report.set_item("dry_run", dry_run)?;
        report.set_item("stored_before", before)?;
        report.set_item("stored_after", after)?;
        Ok(report)
    }

    /// Deletes what no checkpoint refers to any more.
    #[pyo3(signature = (*, now=false, force=false, dry_run=false))]
    fn gc<'py>(
        &self,
        py: Python<'py>,
        now: bool,
        force: bool,
        dry_run: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = GcOptions { now, force, dry_run };
        reports::collected(py, &py.work(|| self.store.gc(options)).or_raise()?, dry_run)
    }

    /// Checks every pack against its digest, and with decode=True every file against its own.
    #[pyo3(signature = (*, decode=false, progress=None))]
    fn verify<'py>(
        &self,
        py: Python<'py>,
        decode: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let total = match Progress::is_wanted(progress.as_ref()) {
            true => {
                let stats = py.work(|| self.store.stats()).or_raise()?;
                stats.pack_bytes + if decode { stats.logical } else { 0 }
            }
            false => 0,
        };
        let problems =
            py.interruptible(Progress::new(progress, total), |advance| self.store.verify(decode, advance))?;
        problems.iter().map(|problem| reports::problem(py, problem)).collect()
    }

    /// Writes a checkpoint as an archive that needs no store.
    #[pyo3(signature = (name, output, *, effort=None, progress=None))]
    fn export<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        output: PathBuf,
        effort: Option<&str>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let effort = add_options(None, None, effort)?.effort;
        let options = ArchiveOptions { effort, ..ArchiveOptions::default() };
        let total = match Progress::is_wanted(progress.as_ref()) {
            true => py.work(|| self.store.checkpoint(name)).or_raise()?.manifest().logical(),
            false => 0,
        };
        let stats = py.interruptible(Progress::new(progress, total), |advance| {
            self.store.export(name, &output, &options, advance)
        })?;
        reports::exported(py, name, &output, &stats)
    }

    /// Adds what an archive or a delta holds.
    #[pyo3(
        signature = (archive, name, *, base=Some("auto"), metadata=None, effort=None, dry_run=false, progress=None),
        text_signature = "($self, archive, name, *, base='auto', metadata=None, effort=None, dry_run=False, progress=None)"
    )]
    #[allow(clippy::too_many_arguments, reason = "each is an argument of the Python method")]
    fn import_archive<'py>(
        &self,
        py: Python<'py>,
        archive: PathBuf,
        name: &str,
        base: Option<&str>,
        metadata: Option<&Bound<'py, PyDict>>,
        effort: Option<&str>,
        dry_run: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = AddOptions { dry_run, ..add_options(base, metadata, effort)? };
        let total = match Progress::is_wanted(progress.as_ref()) {
            true => py.work(|| OpenOptions::default().describe_archive(&archive)).or_raise()?.length,
            false => 0,
        };
        let stats = py.interruptible(Progress::new(progress, total), |advance| {
            self.store.import(&archive, name, &options, advance)
        })?;
        reports::added(py, name, &stats)
    }

    /// Keeps what a checkpoint needs from being collected, also after it was removed.
    fn pin(&self, py: Python<'_>, name: &str) -> PyResult<String> {
        Ok(py.work(|| self.store.pin(name)).or_raise()?.name().to_string())
    }

    /// The pins that are in place.
    fn pins<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let pins = py.work(|| self.store.pins()).or_raise()?;
        let pins = pins.iter().map(|pin| reports::pinned(py, pin)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, pins)
    }

    /// Ends a pin.
    fn unpin(&self, py: Python<'_>, pin: &str) -> PyResult<()> {
        py.work(|| self.store.end_pin(pin)).or_raise()
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        match py.work(|| self.store.checkpoint(name)) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Gone) => Ok(false),
            Err(error) => Err(crate::errors::to_python(&error)),
        }
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.listed(py, "")?.len())
    }

    fn __repr__(&self) -> String {
        format!("<ztensor.Store \"{}\">", ztensor::printable(&self.location.to_string_lossy()))
    }
}

impl Store {
    /// The checkpoints named like a run, or below it.
    fn listed(&self, py: Python<'_>, run: &str) -> PyResult<Vec<Listing>> {
        let inside = |listing: &Listing| {
            let rest = listing.name.as_str().strip_prefix(run);
            run.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let listed = py.work(|| self.store.list()).or_raise()?;
        Ok(listed.into_iter().filter(inside).collect())
    }
}

/// How a checkpoint is to be added.
fn add_options(
    base: Option<&str>,
    metadata: Option<&Bound<'_, PyDict>>,
    effort: Option<&str>,
) -> PyResult<AddOptions> {
    let base = match base {
        None => Base::None,
        Some("auto") => Base::Auto,
        Some(name) => Base::Checkpoint(Name::new(name).or_raise()?),
    };
    let effort = effort.map(Effort::parse).transpose().map_err(|cause| argument(cause.to_string()))?;
    Ok(AddOptions {
        base,
        metadata: metadata.map(attributes::from_dict).transpose()?.unwrap_or_default(),
        effort: effort.unwrap_or_default(),
        ..AddOptions::default()
    })
}
