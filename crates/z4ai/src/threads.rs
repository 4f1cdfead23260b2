//! Where parallel work runs: on the calling thread, helped by workers of rayon's global pool when there is
//! more than one piece of work. Nothing is started or woken for a single piece, which is what small tensors
//! have.

#[cfg(any(test, fuzzing))]
use crate::arch;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

thread_local! {
    /// The most threads that [`map`] may use here; 0 is as many as the pool has.
    static THREAD_LIMIT: Cell<usize> = const { Cell::new(0) };
}

/// Runs `work`, whose calls to [`map`] use at most `threads` threads; 0 means all cores.
pub(crate) fn run<R>(threads: usize, work: impl FnOnce() -> R) -> R {
    /// Puts the limit of the caller back, even if `work` panics.
    struct FormerLimit(usize);
    impl Drop for FormerLimit {
        fn drop(&mut self) {
            THREAD_LIMIT.set(self.0);
        }
    }
    let _restore = FormerLimit(THREAD_LIMIT.replace(threads));
    work()
}

/// How many threads [`map`] may use here.
pub(crate) fn count() -> usize {
    match THREAD_LIMIT.get() {
        0 => rayon::current_num_threads(),
        limit => limit,
    }
}

/// The results of `work` on each piece, in the order of the pieces. `pieces` must know how many they are.
pub(crate) fn map<I, R>(pieces: I, work: impl Fn(I::Item) -> R + Sync) -> Vec<R>
where
    I: Iterator + Send,
    R: Send,
{
    let mut results = Vec::with_capacity(pieces.size_hint().0);
    deliver(pieces, work, |result| results.push(result));
    results
}

/// Gives `sink` the results of `work` on each piece, in the order of the pieces, each as soon as those before
/// it are there.
pub(crate) fn deliver<I, R>(pieces: I, work: impl Fn(I::Item) -> R + Sync, mut sink: impl FnMut(R) + Send)
where
    I: Iterator + Send,
    R: Send,
{
    let pieces_left = pieces.size_hint().0;
    let threads = if pieces_left > 1 { count().min(pieces_left) } else { 1 };
    if threads <= 1 {
        return pieces.map(work).for_each(sink);
    }
    let queue = Mutex::new(pieces.enumerate());
    let output = Mutex::new(Output { sink: &mut sink, early: BTreeMap::new(), next: 0 });
    let take_turns = || {
        loop {
            let Some((index, piece)) = lock(&queue).next() else { break };
            let result = work(piece);
            lock(&output).put(index, result);
        }
    };
    #[cfg(any(test, fuzzing))]
    let kernel = arch::forced();
    rayon::in_place_scope(|scope| {
        for _ in 1..threads {
            #[cfg(any(test, fuzzing))]
            scope.spawn(|_| arch::force(kernel, || run(1, take_turns)));
            #[cfg(not(any(test, fuzzing)))]
            scope.spawn(|_| run(1, take_turns));
        }
        take_turns();
    });
}

/// Results that came before their turn, and the sink that takes them in order.
struct Output<'s, R, S> {
    sink: &'s mut S,
    early: BTreeMap<usize, R>,
    /// The result that the sink gets next.
    next: usize,
}

impl<R, S: FnMut(R)> Output<'_, R, S> {
    fn put(&mut self, index: usize, result: R) {
        self.early.insert(index, result);
        while let Some(result) = self.early.remove(&self.next) {
            self.next += 1;
            (self.sink)(result);
        }
    }
}

/// A panic elsewhere is passed on by the scope; the data behind the lock is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order_on_any_number_of_threads() {
        let expected: Vec<usize> = (0..1000).map(|index| index * index).collect();
        for threads in [0, 1, 2, 7] {
            assert_eq!(run(threads, || map(0..1000, |index| index * index)), expected);
        }
        assert!(map(0..0, |index| index).is_empty());
    }

    #[test]
    fn one_thread_means_the_calling_thread() {
        let caller = std::thread::current().id();
        let threads = run(1, || map(0..100, |_| std::thread::current().id()));
        assert!(threads.iter().all(|&thread| thread == caller));
        assert_eq!(map(0..1, |_| std::thread::current().id()), [caller]);
    }
}
