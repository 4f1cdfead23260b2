//! What a store reports, as dicts.

use std::path::Path;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ztensor::ElementDifference;
use ztensor::archive::Stats;
use ztensor_store::protocol::GcReport;
use ztensor_store::record::{FileKind, Manifest};
use ztensor_store::{
    AddStats, Difference, GetStats, Listing, Name, PinListing, Problem, Settings, StoreStats,
};

use crate::attributes;

/// A dict of these names and values.
macro_rules! dict {
    ($py:expr, $($name:literal: $value:expr),* $(,)?) => {{
        let dict = PyDict::new($py);
        $(dict.set_item($name, $value)?;)*
        Ok(dict)
    }};
}

type Report<'py> = PyResult<Bound<'py, PyDict>>;

fn text(name: &Option<Name>) -> Option<&str> {
    name.as_ref().map(Name::as_str)
}

pub(super) fn added<'py>(py: Python<'py>, name: &str, stats: &AddStats) -> Report<'py> {
    dict!(py,
        "name": name, "parent": stats.parent.as_deref(), "original_bytes": stats.original,
        "stored_bytes": stats.stored, "files": stats.files, "tensors": stats.tensors,
        "duplicates": stats.duplicates, "deltas": stats.deltas, "computed": stats.computed,
        "seconds": stats.seconds,
    )
}

pub(super) fn restored<'py>(py: Python<'py>, name: &str, stats: &GetStats) -> Report<'py> {
    dict!(py, "name": name, "path": stats.path.as_os_str(), "files": stats.files, "bytes": stats.bytes)
}

pub(super) fn exported<'py>(py: Python<'py>, name: &str, output: &Path, stats: &Stats) -> Report<'py> {
    dict!(py,
        "name": name, "output": output.as_os_str(), "original_bytes": stats.original,
        "stored_bytes": stats.stored, "tensors": stats.tensors, "seconds": stats.seconds,
    )
}

pub(super) fn listing<'py>(py: Python<'py>, listing: &Listing) -> Report<'py> {
    dict!(py,
        "name": listing.name.as_str(), "generation": listing.generation, "time": listing.time,
        "parent": text(&listing.parent), "metadata": attributes::to_dict(py, &listing.metadata)?,
        "files": listing.files, "tensors": listing.tensors, "logical_bytes": listing.logical,
        "referred_bytes": listing.referred, "exclusive_bytes": listing.exclusive,
        "added_bytes": listing.added, "depth": listing.deepest,
    )
}

pub(super) fn settings<'py>(py: Python<'py>, settings: &Settings) -> Report<'py> {
    let mode = if settings.single_writer { "single-writer" } else { "shared" };
    dict!(py, "id": settings.id.to_string(), "grace_seconds": settings.grace.as_secs(), "mode": mode)
}

pub(super) fn checkpoint<'py>(py: Python<'py>, manifest: &Manifest) -> Report<'py> {
    let file = |file: &ztensor_store::record::File| match &file.kind {
        FileKind::Regular { length, pieces, mode, sha256, .. } => {
            let tensors = pieces.iter().filter(|piece| piece.tensor.is_some()).count();
            let digest =
                sha256.map(|digest| digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
            dict!(py, "path": &file.path, "bytes": length, "mode": mode, "sha256": digest, "tensors": tensors)
        }
        FileKind::Folder { mode } => dict!(py, "path": &file.path, "folder": true, "mode": mode),
        FileKind::Link { target } => dict!(py, "path": &file.path, "target": target),
    };
    let files = manifest.files.iter().map(file).collect::<PyResult<Vec<_>>>()?;
    dict!(py,
        "name": manifest.stamp.name.as_str(), "generation": manifest.stamp.generation,
        "time": manifest.stamp.time, "parent": manifest.parent.as_ref().map(|(name, _)| name.as_str()),
        "metadata": attributes::to_dict(py, &manifest.metadata)?, "files": files,
        "packs": manifest.packs.len(), "depth": manifest.deepest(),
    )
}

pub(super) fn difference<'py>(py: Python<'py>, difference: &Difference) -> Report<'py> {
    let retyped =
        |(name, from, to): &(String, String, String)| dict!(py, "name": name, "from": from, "to": to);
    let retyped = difference.retyped.iter().map(retyped).collect::<PyResult<Vec<Bound<'_, PyDict>>>>()?;
    let changed = |(name, values): &(String, ElementDifference)| {
        dict!(py,
            "name": name, "elements": values.elements, "total": values.total, "max_difference": values.largest,
        )
    };
    let changed = difference.changed.iter().map(changed).collect::<PyResult<Vec<Bound<'_, PyDict>>>>()?;
    dict!(py,
        "added": &difference.added, "removed": &difference.removed, "changed": changed,
        "retyped": retyped, "identical": difference.identical, "files": &difference.files,
    )
}

pub(super) fn stats<'py>(py: Python<'py>, stats: &StoreStats) -> Report<'py> {
    dict!(py,
        "checkpoints": stats.checkpoints, "logical_bytes": stats.logical, "unique_bytes": stats.unique,
        "stored_bytes": stats.stored, "packs": stats.packs, "pack_bytes": stats.pack_bytes,
        "manifest_bytes": stats.manifest_bytes,
    )
}

pub(super) fn collected<'py>(py: Python<'py>, report: &GcReport, dry_run: bool) -> Report<'py> {
    let damaged = |damage: &ztensor_store::protocol::Damage| dict!(py, "name": damage.name.as_str(), "pack": damage.pack.to_string());
    let damaged = report.damaged.iter().map(damaged).collect::<PyResult<Vec<Bound<'_, PyDict>>>>()?;
    dict!(py,
        "dry_run": dry_run, "packs": report.packs, "bytes": report.bytes, "proposed": report.proposed.len(),
        "proposed_bytes": report.proposed_bytes, "waiting": report.waiting.len(),
        "deleted": report.deleted.len(), "deleted_bytes": report.deleted_bytes,
        "records_deleted": report.records_deleted, "pins_ended": report.pins_ended, "damaged": damaged,
        "unknown": &report.unknown,
    )
}

pub(super) fn problem<'py>(py: Python<'py>, problem: &Problem) -> Report<'py> {
    dict!(py,
        "name": problem.name.as_str(), "kind": problem.error.kind().name(),
        "message": problem.error.told(ztensor::Caller::Python).to_string(),
    )
}

pub(super) fn pinned<'py>(py: Python<'py>, pin: &PinListing) -> Report<'py> {
    dict!(py, "pin": pin.name.as_str(), "time": pin.time, "packs": pin.packs, "bytes": pin.bytes)
}
