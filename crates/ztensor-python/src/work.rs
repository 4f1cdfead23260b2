//! Long work: without the interpreter lock, and on threads that exist. A forked process (`multiprocessing`, PyTorch's `DataLoader`) has only
//! the thread that forked; the core's usual pool is there by name, but nobody works in it, so the child gets a pool of its own.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::ThreadPool;
use ztensor::Error;

use crate::errors::OrRaise;

/// Taking the interpreter lock may have to wait for other threads, so it is not done at every step.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// How many forks lie between this process and the first.
static GENERATION: AtomicUsize = AtomicUsize::new(0);
/// The pool of each generation after the first. A lock that another thread may have held at the fork is never touched again.
static POOLS: [OnceLock<Option<ThreadPool>>; 16] = [const { OnceLock::new() }; 16];

/// Doing work that Python code of other threads need not wait for.
pub(crate) trait Work {
    /// Does the work with the interpreter lock released.
    fn work<T: Send>(self, task: impl FnOnce() -> T + Send) -> T;

    /// The same for work that reports its progress: Python handles signals meanwhile, so that Ctrl-C ends the work.
    fn interruptible<T: Send>(
        self,
        task: impl FnOnce(&mut dyn FnMut(u64) -> ztensor::Result<()>) -> ztensor::Result<T> + Send,
    ) -> PyResult<T>;
}

impl Work for Python<'_> {
    fn work<T: Send>(self, task: impl FnOnce() -> T + Send) -> T {
        self.detach(|| match GENERATION.load(Ordering::Relaxed) {
            0 => task(),
            generation => match POOLS.get(generation - 1).map(|pool| pool.get_or_init(own_pool)) {
                Some(Some(pool)) => pool.install(task),
                // The process gets no threads, or was forked too often: what does not need any still works.
                _ => task(),
            },
        })
    }

    fn interruptible<T: Send>(
        self,
        task: impl FnOnce(&mut dyn FnMut(u64) -> ztensor::Result<()>) -> ztensor::Result<T> + Send,
    ) -> PyResult<T> {
        let mut raised = None;
        let result = self.work(|| {
            let mut looked = Instant::now();
            task(&mut |_| {
                if looked.elapsed() < BETWEEN_LOOKS {
                    return Ok(());
                }
                looked = Instant::now();
                Python::attach(|py| py.check_signals()).map_err(|exception| {
                    raised = Some(exception);
                    Error::argument("interrupted")
                })
            })
        });
        match raised {
            Some(exception) => Err(exception),
            None => result.or_raise(),
        }
    }
}

fn own_pool() -> Option<ThreadPool> {
    let several = rayon::ThreadPoolBuilder::new().build();
    several.or_else(|_| rayon::ThreadPoolBuilder::new().num_threads(1).build()).ok()
}

/// Told by Python in the child of every fork.
#[pyfunction]
fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Asks Python to tell of forks, where there are any.
pub(crate) fn watch_forks(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let Some(register) = py.import("os")?.getattr_opt("register_at_fork")? else { return Ok(()) };
    let arguments = PyDict::new(py);
    arguments.set_item("after_in_child", wrap_pyfunction!(forked, module)?)?;
    register.call((), Some(&arguments)).map(drop)
}
