//! The real protocol under a deterministic scheduler: every operation on the storage is a step, one seed is one run, and the seed is in the failure's
//! message. `SEEDS=100000 FIRST_SEED=0 cargo test -p ztensor-store --release --test simulation -- --nocapture` runs more.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::collapsible_match
)]

mod actors;
mod check;
mod seeded;
mod stage;
mod traces;
