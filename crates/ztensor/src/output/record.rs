//! The recorder under [`disk`](super::disk): for the current thread of a test, every change to a disk is noted, and one of them may be made to fail.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A change about to be made.
pub(super) enum Change<'a> {
    Write { file: &'a File, offset: u64, bytes: &'a [u8] },
    SetLen { file: &'a File, length: u64 },
    Sync { file: &'a File },
    SyncFolder,
    Link { file: &'a File, path: &'a Path },
    Rename { from: &'a Path, to: &'a Path },
    Remove { path: &'a Path },
}

/// A change that was made; files go by their inode.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Write { file: u64, offset: u64, bytes: Vec<u8> },
    SetLen { file: u64, length: u64 },
    Sync { file: u64 },
    SyncFolder,
    Link { file: u64, path: PathBuf },
    Rename { from: PathBuf, to: PathBuf },
    Remove { path: PathBuf },
}

/// A failure to inject: which change fails, how, and whether all later ones fail too. Half of a write that fails is made before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub at: usize,
    pub kind: ErrorKind,
    pub lasting: bool,
}

#[derive(Default)]
struct Recorder {
    events: Vec<Event>,
    fault: Option<Fault>,
    torn: Option<ErrorKind>,
}

thread_local! {
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// Records what a task changes on this thread; with a fault, the change of that number fails.
pub(super) fn recorded<T>(fault: Option<Fault>, task: impl FnOnce() -> T) -> (T, Vec<Event>) {
    RECORDER.set(Some(Recorder { fault, ..Recorder::default() }));
    let result = task();
    (result, RECORDER.take().map(|recorder| recorder.events).unwrap_or_default())
}

/// Notes a change, or fails. Returns what is to be written: of a write that is to fail, half, after which [`torn`] reports the failure; nothing where a
/// sync is noted, which need not be waited for.
pub(super) fn change<'a>(change: Change<'a>) -> Result<Option<&'a [u8]>> {
    RECORDER.with_borrow_mut(|recorder| {
        let written = if let Change::Write { bytes, .. } = &change { *bytes } else { &[] };
        let Some(recorder) = recorder else { return Ok(Some(written)) };
        let number = recorder.events.len();
        let fault = recorder.fault.filter(|fault| fault.at == number || fault.lasting && fault.at < number);
        let inode = |file: &File| file.metadata().map(|metadata| metadata.ino());
        let written = match (&fault, &change) {
            (Some(fault), Change::Write { .. }) => {
                recorder.torn = Some(fault.kind);
                &written[..written.len() / 2]
            }
            _ => written,
        };
        let waits = matches!(change, Change::Sync { .. } | Change::SyncFolder);
        let event = match change {
            Change::Write { file, offset, .. } => {
                Event::Write { file: inode(file)?, offset, bytes: written.to_vec() }
            }
            Change::SetLen { file, length } => Event::SetLen { file: inode(file)?, length },
            Change::Sync { file } => Event::Sync { file: inode(file)? },
            Change::SyncFolder => Event::SyncFolder,
            Change::Link { file, path } => Event::Link { file: inode(file)?, path: path.to_path_buf() },
            Change::Rename { from, to } => Event::Rename { from: from.to_path_buf(), to: to.to_path_buf() },
            Change::Remove { path } => Event::Remove { path: path.to_path_buf() },
        };
        recorder.events.push(event);
        match fault {
            Some(fault) if recorder.torn.is_none() => Err(Error::from(fault.kind)),
            _ => Ok((!waits).then_some(written)),
        }
    })
}

/// Fails after half of a write was made.
pub(super) fn torn() -> Result<()> {
    let torn =
        RECORDER.with_borrow_mut(|recorder| recorder.as_mut().and_then(|recorder| recorder.torn.take()));
    torn.map_or(Ok(()), |kind| Err(Error::from(kind)))
}
