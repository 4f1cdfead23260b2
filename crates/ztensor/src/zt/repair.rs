//! Recovery of the last complete state, at once. Readers find it by themselves, and the next write tidies up; this is for those who want
//! the rest gone now, and for files that earlier versions of this library left without a journal.

use std::path::Path;

use super::exclusive::Exclusive;
use crate::error::Result;
use crate::formats::zt::journal;
use crate::formats::zt::read::{Head, Tail};
use crate::formats::zt::{candidates, read};
use crate::index::Edit;
use crate::limits::{Budget, Limits};

/// What [`repair`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair {
    /// Bytes of an incomplete write that were cut off; 0 when the file was complete.
    pub removed: u64,
    /// Tensors in the recovered state.
    pub tensors: usize,
}

/// Recovers the last complete state of a `.zt` file whose append or replacement was interrupted. A complete file is left as it is. A file that does not
/// say where its last complete state ends is refused unless there is only one place where it can end.
pub fn repair(path: impl AsRef<Path>) -> Result<Repair> {
    let file = Exclusive::open(path.as_ref())?;
    go_back(&file, None).map_err(|error| error.with_path(path.as_ref()))
}

/// Goes back to the state of a `.zt` file that ended at an offset, one of those that the error of [`repair`] names.
pub fn repair_at(path: impl AsRef<Path>, end: u64) -> Result<Repair> {
    let file = Exclusive::open(path.as_ref())?;
    go_back(&file, Some(end)).map_err(|error| error.with_path(path.as_ref()))
}

fn go_back(file: &Exclusive, chosen: Option<u64>) -> Result<Repair> {
    let source = file.source()?;
    let head = Head::read(&source)?;
    let tail = match (chosen, head.tail(&source).and_then(|tail| loads(&source, tail))) {
        (Some(end), _) => candidates::at(&source, end)?,
        (None, Ok(tail)) => tail,
        (None, Err(_)) => candidates::only(&source)?,
    };
    let tensors = read::load(&source, tail, &mut Budget::new(Limits::default()))?.objects.len();
    let removed = source.len() - tail.end();
    if tail.offset >= journal::END && (removed > 0 || head.is_marked()) {
        file.begin(Edit::Repair, tail)?;
        file.abandon(tail)?;
    } else if removed > 0 {
        // No room for a record, and none is needed: the state has no tensors.
        file.shorten(tail)?;
    }
    Ok(Repair { removed, tensors })
}

fn loads(source: &crate::source::Source, tail: Tail) -> Result<Tail> {
    read::load(source, tail, &mut Budget::new(Limits::default())).map(|_| tail)
}
