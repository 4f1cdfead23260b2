//! What `--json` prints: one document for every command, `{"version": 1, "command": …}` with either a `result` or an `error` in it, so that
//! a program needs to look in one place whatever happened. `docs/json.md` has the schema.

use std::cell::RefCell;

use clap::ArgMatches;
use serde_json::{Value as Json, json};

/// Changes when a field is renamed, removed or gets another meaning; new fields do not change it.
const VERSION: u32 = 1;

/// The command that this thread runs.
#[derive(Clone, Default)]
struct Call {
    command: String,
    wants_json: bool,
}

thread_local! {
    // Known to the argument parser and needed where results are printed; everything between them has no use for it.
    static CALL: RefCell<Call> = RefCell::default();
}

/// Notes which command runs from here on, and whether it was asked for JSON.
pub(crate) fn begin(program: &str, matches: &ArgMatches) {
    let mut command = program.to_owned();
    let mut deepest = matches;
    while let Some((name, inner)) = deepest.subcommand() {
        command.push(' ');
        command.push_str(name);
        deepest = inner;
    }
    let wants_json = matches!(deepest.try_get_one::<bool>("json"), Ok(Some(true)));
    CALL.set(Call { command, wants_json });
}

/// The same for arguments that are not understood: the first words name the command, as far as there is one of that name.
pub(crate) fn begin_unparsed(program: &str, all: &clap::Command, words: &[String]) {
    let mut command = program.to_owned();
    let mut deepest = all;
    for word in words.iter().skip(1) {
        let Some(inner) = deepest.find_subcommand(word) else { break };
        command.push(' ');
        command.push_str(inner.get_name());
        deepest = inner;
    }
    CALL.set(Call { command, wants_json: words.iter().any(|word| word == "--json") });
}

/// Whether the running command was asked for JSON.
pub(crate) fn wants_json() -> bool {
    CALL.with_borrow(|call| call.wants_json)
}

/// A result in its envelope.
pub(crate) fn result(document: &Json) -> Json {
    CALL.with_borrow(|call| json!({ "version": VERSION, "command": call.command, "result": document }))
}

/// A failure in its envelope.
pub(crate) fn error(document: &Json) -> Json {
    CALL.with_borrow(|call| json!({ "version": VERSION, "command": call.command, "error": document }))
}

/// An error of the core as a document.
pub(crate) fn describe(error: &ztensor::Error) -> Json {
    json!({
        "kind": error.kind().name(),
        "message": error.message(),
        "path": error.path().map(|path| path.display().to_string()),
        "tensor": error.tensor(),
        "offset": error.offset(),
        "hint": error.hint_for(ztensor::Caller::Shell),
    })
}

/// A failure that is no more than a sentence.
pub(crate) fn sentence(kind: &str, message: &str) -> Json {
    json!({ "kind": kind, "message": message, "path": null, "tensor": null, "offset": null, "hint": null })
}
