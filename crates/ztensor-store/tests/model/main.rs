//! The protocol of stores, model-checked: two writers, a remover, a re-anchorer and two collectors, every interleaving of their operations on the storage,
//! lost answers, operations that arrive late, and clocks that always say "old enough". Who crashes is who is never scheduled again. `make check-protocol`
//! prints the number of states; `LARGE=1` checks larger casts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod protocol;
mod state;

use stateright::{Checker, Model, Property};

use protocol::{Cast, Rule, Step, Store};
use state::State;

impl Model for Store {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.cast)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        self.steps(state, actions);
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        self.take(&mut next, step);
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what was added and not removed is readable", |_, state: &State| {
                state.added_is_readable()
            }),
            Property::always("a name is added once", |_, state: &State| state.names_are_added_once()),
            Property::always("what was removed does not come back", |_, state: &State| {
                state.removed_is_gone()
            }),
            Property::always("a reader keeps its grace", |_, state: &State| !state.reader_missed),
            Property::sometimes("an add succeeds", |_, state: &State| {
                state.writers.iter().any(|writer| writer.succeeded())
            }),
        ]
    }
}

fn check(model: Store) -> (usize, Vec<&'static str>) {
    let checker = model.checker().threads(2).spawn_bfs().join();
    let broken = checker.discoveries().into_keys().filter(|name| !name.starts_with("an add"));
    (checker.unique_state_count(), broken.collect())
}

/// Casts that cover each known violation, small enough for every run.
fn casts() -> Vec<(&'static str, Cast)> {
    let cast = Cast::default();
    let mut casts = vec![
        (
            "writer reuses, remover, two collectors",
            Cast { reusing: true, remover: true, collectors: [2, 1], ..cast },
        ),
        ("slow writer, collector", Cast { fresh: true, collectors: [2, 1], lost: true, ..cast }),
        ("re-anchorer, collector", Cast { anchor: true, collectors: [2, 1], ..cast }),
        (
            "re-anchorer, remover, collector",
            Cast { anchor: true, remover: true, collectors: [1, 0], lost: true, ..cast },
        ),
        (
            "two writers of one name, re-anchorer, collector",
            Cast { twins: true, anchor: true, collectors: [1, 0], ..cast },
        ),
        (
            "remover, writer of the removed name, collector",
            Cast { readd: true, remover: true, collectors: [1, 0], lost: true, ..cast },
        ),
        (
            "doomed writer, remover, second writer",
            Cast { twins: true, remover: true, collectors: [2, 0], ..cast },
        ),
        (
            "reader, remover, writer, collector, honest clock",
            Cast { reusing: true, remover: true, reader: true, honest: true, collectors: [2, 0], ..cast },
        ),
    ];
    if std::env::var_os("LARGE").is_some() {
        casts.push((
            "writer, re-anchorer, remover, two collectors",
            Cast { reusing: true, anchor: true, remover: true, collectors: [2, 1], ..cast },
        ));
        casts.push((
            "two writers, remover, two collectors, lost answers",
            Cast { reusing: true, fresh: true, remover: true, lost: true, collectors: [2, 2], ..cast },
        ));
    }
    casts
}

#[test]
fn the_protocol_holds() {
    let mut all = 0;
    for (name, cast) in casts() {
        let (states, broken) = check(Store { cast, without: None });
        println!("{states:>10} states: {name}");
        assert!(broken.is_empty(), "{name}: {broken:?}");
        all += states;
    }
    println!("{all:>10} states in all, no violation");
}

#[test]
fn without_any_rule_it_does_not() {
    for rule in Rule::ALL {
        let found = casts().into_iter().find_map(|(name, cast)| {
            let (states, broken) = check(Store { cast, without: Some(rule) });
            broken.first().map(|broken| (name, states, *broken))
        });
        match found {
            Some((name, states, broken)) => {
                println!("without {rule:?}: \"{broken}\" is violated ({name}, {states} states)")
            }
            None => panic!("without {rule:?} nothing is violated"),
        }
    }
}
