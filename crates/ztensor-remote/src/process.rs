//! Things that belong to one process. A runtime and its connections do not survive `fork`: their threads stay
//! behind in the parent, and a child that waits for them waits for ever. Data loaders fork, so a child makes
//! its own and leaves the parent's alone.

use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use ztensor::{Error, Kind, Result};

/// Processes forked from one another that one value can serve.
const GENERATIONS: usize = 32;

/// A value that every process makes for itself, once.
pub(crate) struct PerProcess<T> {
    made: [OnceLock<(u32, T)>; GENERATIONS],
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        PerProcess { made: [const { OnceLock::new() }; GENERATIONS] }
    }

    /// The value of this process; made now if it is not there yet.
    pub(crate) fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<&T> {
        let process = std::process::id();
        if let Some(value) = self.of(process) {
            return Ok(value);
        }
        let mut made = (process, make()?);
        for slot in &self.made {
            match slot.set(made) {
                Ok(()) => break,
                // Another thread of this process was quicker: its value serves.
                Err(_) if slot.get().is_some_and(|(owner, _)| *owner == process) => break,
                Err(back) => made = back,
            }
        }
        self.of(process).ok_or_else(|| {
            let message =
                format!("more than {GENERATIONS} processes forked from one another use remote files");
            Error::new(Kind::Io, message)
        })
    }

    fn of(&self, process: u32) -> Option<&T> {
        let mut made = self.made.iter().filter_map(OnceLock::get);
        made.find(|(owner, _)| *owner == process).map(|(_, value)| value)
    }
}

/// The runtime of this process, made when the first remote file is opened.
pub(crate) fn runtime() -> Result<&'static Handle> {
    static RUNTIME: PerProcess<Runtime> = PerProcess::new();
    let make = || {
        let built =
            Builder::new_multi_thread().worker_threads(2).thread_name("ztensor-remote").enable_all().build();
        built.map_err(|cause| Error::from(cause).with_context("cannot start the threads for remote files"))
    };
    RUNTIME.get(make).map(Runtime::handle)
}

/// Runs a future to its end on the calling thread, which may belong to an asynchronous program.
pub(crate) fn block_on<F: Future + Send>(future: F) -> Result<F::Output>
where
    F::Output: Send,
{
    let handle = runtime()?;
    if Handle::try_current().is_err() {
        return Ok(handle.block_on(future));
    }
    // A thread that drives a runtime may not wait inside it; one of our own may.
    let waited = std::thread::scope(|scope| scope.spawn(|| handle.block_on(future)).join());
    waited.map_err(|_| Error::new(Kind::Io, "a thread that waited for the network ended early"))
}

/// How many ask for all waiting to end.
static INTERRUPTIONS: AtomicUsize = AtomicUsize::new(0);

/// How long an interruption may go unnoticed.
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// As long as this value lives, everything in the process that waits for bytes of a remote file gets an error
/// instead, and so does what begins to wait. For programs whose users may press Ctrl-C.
#[must_use]
pub struct Interruption(());

impl Interruption {
    /// Begins.
    #[allow(clippy::new_without_default, reason = "there is nothing default about it")]
    pub fn new() -> Interruption {
        INTERRUPTIONS.fetch_add(1, Ordering::Relaxed);
        Interruption(())
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        INTERRUPTIONS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An error while there is an [`Interruption`].
pub(crate) fn check_interrupted() -> Result<()> {
    match INTERRUPTIONS.load(Ordering::Relaxed) {
        0 => Ok(()),
        _ => Err(Error::argument("interrupted")),
    }
}

/// Runs a future to its end, as [`block_on`], or to an [`Interruption`].
pub(crate) fn wait_for<T: Send>(future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    block_on(async {
        let mut future = pin!(future);
        loop {
            match within(BETWEEN_LOOKS, &mut future).await {
                Some(done) => return done,
                None => check_interrupted()?,
            }
        }
    })?
}

/// Waits for a while, or says that it took too long.
pub(crate) async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(limit, future).await.ok()
}
