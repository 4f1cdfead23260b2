//! The nine ways in which the protocol's first draft lost something, step by step against the real code. W is a writer, R a remover, P re-anchors, G
//! collects; the checkpoint `a` holds the pack p0.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::actors::{self, Event, Events, GRACE, name};
use crate::check::check;
use crate::seeded::Logged;
use crate::stage::{Stage, Verb, Verdict};
use ztensor::Result;
use ztensor_store::Name;
use ztensor_store::protocol::Protocol;

struct Trace {
    stage: Stage,
    events: Events,
    threads: Vec<JoinHandle<()>>,
}

impl Trace {
    /// A store with the checkpoint `a`, older than the grace period.
    fn new() -> Trace {
        let (stage, events) = (Stage::default(), Events::default());
        let protocol = actors::protocol(Arc::new(Logged(stage.clone())), 1);
        actors::add(&protocol, &name("a"), false, false, &events).unwrap();
        let trace = Trace { stage, events, threads: Vec::new() };
        trace.wait();
        trace
    }

    fn wait(&self) {
        self.stage.advance(GRACE * 2);
    }

    fn start(
        &mut self,
        work: impl FnOnce(&Protocol, &Events, &Mutex<std::time::Duration>) -> Result<()> + Send + 'static,
    ) -> usize {
        let number = self.threads.len();
        let (events, now) = (self.events.clone(), self.stage.now.clone());
        let thread = self.stage.spawn(number, move |backend| {
            // Whatever fails here is checked by what was reported.
            let _ = work(&actors::protocol(backend, 1000 + number as u64), &events, &now);
        });
        self.threads.push(thread);
        number
    }

    fn add(&mut self, target: &str, reuse: bool) -> usize {
        let target = name(target);
        self.start(move |protocol, events, _| actors::add(protocol, &target, reuse, false, events))
    }

    fn remove(&mut self, target: &str) {
        let target = name(target);
        let actor = self.start(move |protocol, events, _| actors::remove(protocol, &target, events));
        self.stage.finish(actor);
    }

    fn reanchor(&mut self, target: &str) -> usize {
        let target = name(target);
        self.start(move |protocol, _, _| actors::reanchor(protocol, &target, false))
    }

    fn collector(&mut self) -> usize {
        self.start(|protocol, _, _| actors::collect(protocol, false, 1))
    }

    fn collect(&mut self) {
        let actor = self.collector();
        self.stage.finish(actor);
    }

    /// Lets an actor go on until it is about to create a key that ends so.
    fn until_create(&self, actor: usize, end: &str) {
        let found = self.stage.run_until(actor, |verb, key| verb == Verb::Create && key.ends_with(end));
        assert!(found, "actor {actor} does not create {end}");
    }

    fn added(&self, target: &str) -> usize {
        let events = self.events.lock().unwrap();
        let is = |wanted: &Name| *wanted == name(target);
        events.iter().filter(|event| matches!(event, Event::Added { name, .. } if is(name))).count()
    }

    fn finish(self) {
        for thread in self.threads {
            thread.join().unwrap();
        }
        let events = self.events.lock().unwrap().clone();
        check(&self.stage, &events, true).unwrap();
    }

    fn is_there(&self, target: &str) -> bool {
        let protocol = actors::protocol(Arc::new(self.stage.memory.clone()), 2);
        protocol
            .current(&name(target))
            .is_ok_and(|current| protocol.missing_pack(&current.manifest).unwrap().is_none())
    }
}

#[test]
fn v1_a_pack_is_reused_while_it_is_collected() {
    let mut trace = Trace::new();
    let writer = trace.add("b", true);
    trace.until_create(writer, "b/0.m");
    trace.remove("a");
    trace.wait();
    trace.collect();
    trace.wait();
    let collector = trace.collector();
    trace.until_create(collector, ".go");
    trace.stage.finish(writer);
    trace.stage.finish(collector);
    assert_eq!(trace.added("b"), 1);
    assert!(trace.is_there("b"));
    trace.finish();
}

#[test]
fn v2_an_upload_takes_longer_than_the_grace_period() {
    let mut trace = Trace::new();
    let writer = trace.add("b", false);
    trace.until_create(writer, "b/0.m");
    for _ in 0..2 {
        trace.wait();
        trace.collect();
    }
    trace.stage.finish(writer);
    // Its pack is gone: it puts another, above the tombstone of the first try.
    assert_eq!(trace.added("b"), 1);
    assert!(trace.is_there("b"));
    trace.finish();
}

#[test]
fn v2b_a_pack_is_chosen_from_what_was_known_long_ago() {
    let mut trace = Trace::new();
    let writer = trace.add("b", true);
    trace.until_create(writer, "b/0.m");
    trace.remove("a");
    for _ in 0..3 {
        trace.wait();
        trace.collect();
    }
    trace.stage.finish(writer);
    assert_eq!(trace.added("b"), 1);
    assert!(trace.is_there("b"));
    trace.finish();
}

/// A re-anchoring whose new pack is about to be collected when its manifest is created.
fn doomed_reanchor() -> (Trace, usize, usize) {
    let mut trace = Trace::new();
    let anchor = trace.reanchor("a");
    trace.until_create(anchor, "a/1.m");
    trace.wait();
    trace.collect();
    trace.wait();
    let collector = trace.collector();
    trace.until_create(collector, ".go");
    trace.stage.step(anchor);
    (trace, anchor, collector)
}

#[test]
fn v3_a_reanchorer_dies_before_it_looks() {
    let (mut trace, anchor, collector) = doomed_reanchor();
    trace.stage.grant(anchor, Verdict::Crash);
    trace.stage.finish(anchor);
    trace.stage.finish(collector);
    for _ in 0..3 {
        trace.wait();
        trace.collect();
    }
    trace.finish();
}

#[test]
fn v3b_a_doomed_reanchorer_leaves_the_checkpoint_alone() {
    let (trace, anchor, collector) = doomed_reanchor();
    trace.stage.finish(collector);
    trace.stage.finish(anchor);
    assert!(trace.is_there("a"));
    trace.finish();
}

#[test]
fn v4_a_removed_checkpoint_is_not_reanchored() {
    let mut trace = Trace::new();
    let anchor = trace.reanchor("a");
    trace.until_create(anchor, "a/1.m");
    trace.remove("a");
    trace.stage.finish(anchor);
    assert!(!trace.is_there("a"));
    trace.finish();
}

#[test]
fn v5_a_swept_tombstone_is_created_again_below_what_was_added_since() {
    let mut trace = Trace::new();
    let target = name("a");
    let remover = trace.start(move |protocol, events, _| actors::remove(protocol, &target, events));
    trace.until_create(remover, "a/1.m");
    trace.stage.grant(remover, Verdict::AnswerLost);
    let writer = trace.add("a", false);
    trace.stage.finish(writer);
    assert_eq!(trace.added("a"), 2);
    trace.wait();
    trace.collect();
    trace.until_create(remover, "a/1.m");
    trace.stage.finish(remover);
    assert!(trace.is_there("a"));
    trace.finish();
}

#[test]
fn v6_a_swept_generation_is_created_again_by_a_slow_writer() {
    let mut trace = Trace::new();
    let slow = trace.add("b", false);
    trace.until_create(slow, "b/0.m");
    let fast = trace.add("b", false);
    trace.stage.finish(fast);
    let anchor = trace.reanchor("b");
    trace.stage.finish(anchor);
    trace.wait();
    trace.collect();
    assert!(!trace.stage.memory.keys().contains(&"checkpoints/b/0.m".to_owned()));
    trace.stage.finish(slow);
    assert_eq!(trace.added("b"), 1);
    trace.finish();
}

#[test]
fn v7_of_two_collectors_one_read_the_manifests_before_the_commit() {
    let mut trace = Trace::new();
    let writer = trace.add("b", true);
    trace.until_create(writer, "b/0.m");
    trace.remove("a");
    trace.wait();
    trace.collect();
    trace.wait();
    let early = trace.collector();
    trace.until_create(early, ".go");
    trace.stage.finish(writer);
    trace.collect();
    trace.stage.finish(early);
    assert_eq!(trace.added("b"), 1);
    assert!(trace.is_there("b"));
    trace.finish();
}

#[test]
fn v8_a_reader_keeps_its_grace_whatever_was_proposed_before() {
    let mut trace = Trace::new();
    let writer = trace.add("b", true);
    trace.until_create(writer, "b/0.m");
    trace.remove("a");
    trace.wait();
    trace.collect();
    trace.stage.finish(writer);
    assert_eq!(trace.added("b"), 1);
    let target = name("b");
    let reader = trace.start(move |protocol, events, now| actors::read(protocol, &target, 1, events, now));
    trace.stage.run_until(reader, |verb, _| verb == Verb::Stat);
    trace.wait();
    trace.remove("b");
    trace.collect();
    trace.collect();
    trace.stage.finish(reader);
    trace.finish();
}

#[test]
fn v9_the_tombstone_of_a_doomed_add_spares_what_was_added_since() {
    let mut trace = Trace::new();
    let doomed = trace.add("b", false);
    trace.until_create(doomed, "b/0.m");
    for _ in 0..2 {
        trace.wait();
        trace.collect();
    }
    trace.until_create(doomed, "b/1.m");
    trace.remove("b");
    let second = trace.add("b", false);
    trace.stage.finish(second);
    trace.stage.finish(doomed);
    assert_eq!(trace.added("b"), 1);
    assert!(trace.is_there("b"));
    trace.finish();
}

/// The remover looks once more: its tombstone may lie below generations that were made, and under which the one it saw was swept, meanwhile.
#[test]
fn a_tombstone_below_a_later_generation_removes_nothing() {
    let mut trace = Trace::new();
    let target = name("a");
    let remover = trace.start(move |protocol, events, _| actors::remove(protocol, &target, events));
    trace.until_create(remover, "a/1.m");
    for _ in 0..2 {
        let anchor = trace.reanchor("a");
        trace.stage.finish(anchor);
    }
    trace.wait();
    trace.collect();
    assert!(!trace.stage.memory.keys().contains(&"checkpoints/a/1.m".to_owned()));
    trace.stage.finish(remover);
    assert!(!trace.is_there("a"));
    trace.finish();
}

/// A proposal is sent once. One that came back after it was decided and finished could be decided again, by a collector that read the manifests before
/// the writer who made the first decision committed.
#[test]
fn a_finished_proposal_does_not_come_back() {
    let mut trace = Trace::new();
    let writer = trace.add("b", true);
    trace.until_create(writer, "b/0.m");
    trace.remove("a");
    trace.wait();
    let proposer = trace.collector();
    let proposes = |verb: Verb, key: &str| verb == Verb::Create && key.starts_with("gc/");
    assert!(trace.stage.run_until(proposer, proposes));
    trace.stage.grant(proposer, Verdict::AnswerLost);
    trace.stage.waiting();
    trace.wait();
    let early = trace.collector();
    trace.until_create(early, ".go");
    trace.stage.finish(writer);
    assert_eq!(trace.added("b"), 1);
    trace.collect();
    assert!(!trace.stage.memory.keys().iter().any(|key| key.starts_with("gc/")));
    trace.stage.finish(proposer);
    trace.stage.finish(early);
    assert!(trace.is_there("b"));
    trace.finish();
}
