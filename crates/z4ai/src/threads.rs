//! Where parallel work runs: rayon's global pool, or a pool of its own when a caller asks for a number of threads.

use crate::error::{Error, ErrorKind, Result};

/// Runs `work` with `threads` workers; 0 means the global pool.
pub(crate) fn run<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> Result<R> {
    if threads == 0 {
        return Ok(work());
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| {
        Error::new(ErrorKind::Threads, format!("cannot start {threads} threads: {error}"))
    })?;
    Ok(pool.install(work))
}
