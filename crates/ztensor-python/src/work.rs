//! Long work: without the interpreter lock, and on threads that exist. A forked process (`multiprocessing`,
//! PyTorch's `DataLoader`) has only the thread that forked; the core's usual pool is there by name, but
//! nobody works in it, so the child gets a pool of its own.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::ThreadPool;
use ztensor::Error;

use crate::errors::OrRaise;
use crate::network::Interruption;

/// Taking the interpreter lock may have to wait for other threads, so it is not done at every step.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// How many forks lie between this process and the first.
static GENERATION: AtomicUsize = AtomicUsize::new(0);
/// The pool of each generation after the first. A lock that another thread may have held at the fork is never
/// touched again.
static POOLS: [OnceLock<Option<ThreadPool>>; 16] = [const { OnceLock::new() }; 16];

/// Doing work that Python code of other threads need not wait for.
pub(crate) trait Work {
    /// Does the work with the interpreter lock released.
    fn work<T: Send>(self, task: impl FnOnce() -> T + Send) -> T;

    /// Does work that may wait for a network, on a thread of its own: Python handles signals meanwhile, so
    /// that Ctrl-C ends the waiting.
    fn waiting<T: Send>(self, task: impl FnOnce() -> ztensor::Result<T> + Send) -> PyResult<T>;

    /// Does work that may wait for a network, if it reads something `remote`.
    fn working<T: Send>(self, remote: bool, task: impl FnOnce() -> ztensor::Result<T> + Send) -> PyResult<T>;

    /// Does work that reports how many bytes it got on: Python handles signals meanwhile, so that Ctrl-C ends
    /// the work, and is told of the progress.
    fn interruptible<T: Send>(
        self,
        progress: Progress,
        task: impl FnOnce(&mut dyn FnMut(u64) -> ztensor::Result<()>) -> ztensor::Result<T> + Send,
    ) -> PyResult<T>;
}

impl Work for Python<'_> {
    fn work<T: Send>(self, task: impl FnOnce() -> T + Send) -> T {
        self.detach(|| on_living_threads(task))
    }

    fn waiting<T: Send>(self, task: impl FnOnce() -> ztensor::Result<T> + Send) -> PyResult<T> {
        let mut raised = None;
        let result = self.detach(|| {
            // Signals are handled by the interpreter's first thread; elsewhere looking does nothing.
            run_watched(task, || match Python::attach(|py| py.check_signals()) {
                Ok(()) => true,
                Err(exception) => {
                    raised = Some((exception, Interruption::new()));
                    false
                }
            })
        });
        match raised {
            Some((exception, _)) => Err(exception),
            None => result.or_raise(),
        }
    }

    fn working<T: Send>(self, remote: bool, task: impl FnOnce() -> ztensor::Result<T> + Send) -> PyResult<T> {
        if remote { self.waiting(task) } else { self.work(task).or_raise() }
    }

    fn interruptible<T: Send>(
        self,
        mut progress: Progress,
        task: impl FnOnce(&mut dyn FnMut(u64) -> ztensor::Result<()>) -> ztensor::Result<T> + Send,
    ) -> PyResult<T> {
        let (done, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        let advance = |bytes: u64| -> ztensor::Result<()> {
            done.fetch_add(bytes, Ordering::Relaxed);
            if ended.load(Ordering::Relaxed) { Err(Error::argument("interrupted")) } else { Ok(()) }
        };
        let mut raised = None;
        let result = self.detach(|| {
            run_watched(
                || task(&mut { advance }),
                || {
                    progress.done = done.load(Ordering::Relaxed);
                    let look = |py: Python<'_>| py.check_signals().and_then(|()| progress.report(py));
                    match Python::attach(look) {
                        Ok(()) => true,
                        Err(exception) => {
                            // It may be at work, or wait for a network.
                            ended.store(true, Ordering::Relaxed);
                            raised = Some((exception, Interruption::new()));
                            false
                        }
                    }
                },
            )
        });
        match raised {
            Some((exception, _)) => Err(exception),
            None => {
                let result = result.or_raise()?;
                progress.finish(self)?;
                Ok(result)
            }
        }
    }
}

/// Does a task on a thread of its own, and calls `look` now and then until it is done, or until that says that it has seen enough.
fn run_watched<T: Send>(task: impl FnOnce() -> T + Send, mut look: impl FnMut() -> bool) -> T {
    /// Tells when the task is done, also when it panics.
    struct Done<'a>(&'a AtomicBool, Thread);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
            self.1.unpark();
        }
    }
    // Not `JoinHandle::is_finished`, which is false for a moment after this thread was woken, and would let it sleep on.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let guard = Done(&done, std::thread::current());
        let worker = scope.spawn(move || {
            let _guard = guard;
            on_living_threads(task)
        });
        let mut looked = Instant::now();
        while !done.load(Ordering::Acquire) {
            std::thread::park_timeout(BETWEEN_LOOKS.saturating_sub(looked.elapsed()));
            if looked.elapsed() >= BETWEEN_LOOKS && !done.load(Ordering::Acquire) {
                if !look() {
                    break;
                }
                looked = Instant::now();
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A `progress=` argument: a function of the bytes done and the bytes in all, called a few times a second and
/// at the end. What it raises ends the work.
#[derive(Default)]
pub(crate) struct Progress {
    callback: Option<Py<PyAny>>,
    done: u64,
    total: u64,
}

impl Progress {
    pub(crate) fn new(callback: Option<Py<PyAny>>, total: u64) -> Self {
        Progress { callback, done: 0, total }
    }

    /// Whether anybody wants to know: totals need not be found out otherwise.
    pub(crate) fn is_wanted(callback: Option<&Py<PyAny>>) -> bool {
        Python::attach(|py| callback.is_some_and(|callback| !callback.is_none(py)))
    }

    /// Counts and reports.
    pub(crate) fn advance(&mut self, py: Python<'_>, bytes: u64) -> PyResult<()> {
        self.done += bytes;
        self.report(py)
    }

    fn report(&self, py: Python<'_>) -> PyResult<()> {
        match &self.callback {
            // Estimates of a total may be exceeded; what is reported never is.
            Some(callback) if !callback.is_none(py) => {
                callback.call1(py, (self.done.min(self.total), self.total)).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        self.done = self.total;
        self.report(py)
    }
}

/// Runs a task whose parts run on the threads that this process has.
fn on_living_threads<T: Send>(task: impl FnOnce() -> T + Send) -> T {
    match GENERATION.load(Ordering::Relaxed) {
        0 => task(),
        generation => match POOLS.get(generation - 1).map(|pool| pool.get_or_init(own_pool)) {
            Some(Some(pool)) => pool.install(task),
            // The process gets no threads, or was forked too often: what does not need any still works.
            _ => task(),
        },
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
