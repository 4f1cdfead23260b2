//! Actors on threads of their own, of which exactly one runs at a time: each waits before every operation on the storage until the scheduler lets it
//! go on, and learns there whether the operation fails, or its answer is lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ztensor::{Error, Kind, Result};
use ztensor_store::backend::{Backend, Creation, Listed, Memory, Reach, Stat, Upload};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Put,
    Create,
    Read,
    Stat,
    List,
    Delete,
}

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Done,
    /// It does not take place, and fails.
    Refused,
    /// It takes place, and fails for the caller.
    AnswerLost,
    /// It fails for the caller, and takes place later.
    Late,
    /// It takes place now and once more later.
    Repeated,
    /// This and all further operations fail: the process is dead.
    Crash,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Running,
    Waiting(Verb, String),
    Granted(Verdict),
    Done,
}

/// An operation that is still on its way.
#[derive(Clone, Debug)]
pub enum Pending {
    Create(String, Vec<u8>),
    Delete(String),
}

/// Key, bytes and time of a create.
pub type Created = (String, Vec<u8>, Duration);

#[derive(Default)]
struct Inner {
    actors: BTreeMap<usize, State>,
    pending: Vec<Pending>,
}

#[derive(Clone, Default)]
pub struct Stage {
    inner: Arc<(Mutex<Inner>, Condvar)>,
    pub memory: Memory,
    /// Storage that accepts creates of taken keys.
    pub lies: bool,
    /// What is added to the age of listed objects, by a hash of the key: clocks that lie.
    pub skew: u64,
    /// All creations of records, with the time.
    pub log: Arc<Mutex<Vec<Created>>>,
    pub now: Arc<Mutex<Duration>>,
}

impl Stage {
    /// Starts an actor.
    pub fn spawn(
        &self,
        number: usize,
        work: impl FnOnce(Arc<dyn Backend>) + Send + 'static,
    ) -> std::thread::JoinHandle<()> {
        self.inner.0.lock().unwrap().actors.insert(number, State::Running);
        let backend = Gate { stage: self.clone(), actor: number, dead: Mutex::new(false) };
        let stage = self.clone();
        std::thread::spawn(move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(Arc::new(backend))));
            let (lock, turn) = &*stage.inner;
            lock.lock().unwrap().actors.insert(number, State::Done);
            turn.notify_all();
            if let Err(panic) = result {
                std::panic::resume_unwind(panic);
            }
        })
    }

    /// What the living actors wait to do, once all of them wait.
    pub fn waiting(&self) -> Vec<(usize, Verb, String)> {
        let (lock, turn) = &*self.inner;
        let mut inner = lock.lock().unwrap();
        while inner.actors.values().any(|state| matches!(state, State::Running | State::Granted(_))) {
            inner = turn.wait(inner).unwrap();
        }
        let waiting = inner.actors.iter().filter_map(|(actor, state)| match state {
            State::Waiting(verb, key) => Some((*actor, *verb, key.clone())),
            _ => None,
        });
        waiting.collect()
    }

    /// Lets an actor do what it waits for.
    pub fn grant(&self, actor: usize, verdict: Verdict) {
        let (lock, turn) = &*self.inner;
        lock.lock().unwrap().actors.insert(actor, State::Granted(verdict));
        turn.notify_all();
    }

    /// Lets an actor work until it is about to do something like this, or has ended. Says whether it is.
    pub fn run_until(&self, actor: usize, until: impl Fn(Verb, &str) -> bool) -> bool {
        loop {
            let waiting = self.waiting();
            let Some((_, verb, key)) = waiting.iter().find(|(number, _, _)| *number == actor) else {
                return false;
            };
            if until(*verb, key) {
                return true;
            }
            self.grant(actor, Verdict::Done);
        }
    }

    pub fn step(&self, actor: usize) {
        self.waiting();
        self.grant(actor, Verdict::Done);
        self.waiting();
    }

    pub fn finish(&self, actor: usize) {
        self.run_until(actor, |_, _| false);
    }

    pub fn advance(&self, time: Duration) {
        self.memory.advance(time);
        *self.now.lock().unwrap() += time;
    }

    /// Operations that are on their way.
    pub fn pending(&self) -> usize {
        self.inner.0.lock().unwrap().pending.len()
    }

    pub fn deliver(&self, number: usize) {
        let pending = self.inner.0.lock().unwrap().pending.swap_remove(number);
        match pending {
            Pending::Create(key, bytes) => {
                self.create(&key, &bytes).unwrap();
            }
            Pending::Delete(key) => self.memory.delete(&key).unwrap(),
        }
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Creation> {
        if self.lies {
            self.memory.delete(key)?;
        }
        let made = self.memory.create(key, bytes)?;
        if made == Creation::Created {
            self.log.lock().unwrap().push((key.to_owned(), bytes.to_vec(), *self.now.lock().unwrap()));
        }
        Ok(made)
    }

    fn skewed(&self, key: &str, stat: Stat) -> Stat {
        if self.skew == 0 {
            return stat;
        }
        let hash =
            key.bytes().fold(self.skew, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        let written = match hash >> 32 & 3 {
            0 => Duration::ZERO,
            1 => stat.written + Duration::from_secs(1 << 20),
            _ => stat.written,
        };
        Stat { written, ..stat }
    }
}

/// The storage as one actor sees it.
struct Gate {
    stage: Stage,
    actor: usize,
    dead: Mutex<bool>,
}

impl Gate {
    fn wait(&self, verb: Verb, key: &str) -> Verdict {
        if *self.dead.lock().unwrap() {
            return Verdict::Crash;
        }
        let (lock, turn) = &*self.stage.inner;
        let mut inner = lock.lock().unwrap();
        inner.actors.insert(self.actor, State::Waiting(verb, key.to_owned()));
        turn.notify_all();
        loop {
            if let State::Granted(verdict) = inner.actors[&self.actor] {
                inner.actors.insert(self.actor, State::Running);
                if verdict == Verdict::Crash {
                    *self.dead.lock().unwrap() = true;
                }
                return verdict;
            }
            inner = turn.wait(inner).unwrap();
        }
    }

    fn later(&self, pending: Pending) {
        self.stage.inner.0.lock().unwrap().pending.push(pending);
    }

    fn reading<T>(&self, verb: Verb, key: &str, read: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.wait(verb, key) {
            Verdict::Done | Verdict::Repeated => read(),
            _ => Err(lost()),
        }
    }
}

fn lost() -> Error {
    Error::new(Kind::Io, "simulated failure")
}

impl Backend for Gate {
    fn describe(&self) -> String {
        "the simulation".into()
    }

    fn put(&self, key: &str) -> Result<Box<dyn Upload + '_>> {
        Ok(Box::new(GateUpload { gate: self, key: key.to_owned(), bytes: Vec::new() }))
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Creation> {
        match self.wait(Verb::Create, key) {
            Verdict::Done => self.stage.create(key, bytes),
            Verdict::Repeated => {
                self.later(Pending::Create(key.to_owned(), bytes.to_vec()));
                self.stage.create(key, bytes)
            }
            Verdict::AnswerLost => self.stage.create(key, bytes).and(Err(lost())),
            Verdict::Late => {
                self.later(Pending::Create(key.to_owned(), bytes.to_vec()));
                Err(lost())
            }
            Verdict::Refused | Verdict::Crash => Err(lost()),
        }
    }

    fn get(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        self.reading(Verb::Read, key, || self.stage.memory.get(key, offset, out))
    }

    fn read(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>> {
        self.reading(Verb::Read, key, || self.stage.memory.read(key, most))
    }

    fn stat(&self, key: &str) -> Result<Option<Stat>> {
        let stat = self.reading(Verb::Stat, key, || self.stage.memory.stat(key))?;
        Ok(stat.map(|stat| self.stage.skewed(key, stat)))
    }

    fn list(&self, prefix: &str, reach: Reach) -> Result<Vec<Listed>> {
        let listed = self.reading(Verb::List, prefix, || self.stage.memory.list(prefix, reach))?;
        let skew = |object: Listed| Listed { stat: self.stage.skewed(&object.key, object.stat), ..object };
        Ok(listed.into_iter().map(skew).collect())
    }

    fn delete(&self, key: &str) -> Result<()> {
        match self.wait(Verb::Delete, key) {
            Verdict::Done => self.stage.memory.delete(key),
            Verdict::Repeated => {
                self.later(Pending::Delete(key.to_owned()));
                self.stage.memory.delete(key)
            }
            Verdict::AnswerLost => self.stage.memory.delete(key).and(Err(lost())),
            Verdict::Late => {
                self.later(Pending::Delete(key.to_owned()));
                Err(lost())
            }
            Verdict::Refused | Verdict::Crash => Err(lost()),
        }
    }
}

struct GateUpload<'a> {
    gate: &'a Gate,
    key: String,
    bytes: Vec<u8>,
}

impl Upload for GateUpload<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let put = || self.gate.stage.memory.create(&self.key, &self.bytes).map(|_| ());
        match self.gate.wait(Verb::Put, &self.key) {
            Verdict::Done | Verdict::Repeated => put(),
            Verdict::AnswerLost => put().and(Err(lost())),
            _ => Err(lost()),
        }
    }
}
