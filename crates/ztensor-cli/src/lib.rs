//! The `ztensor` and `z4ai` commands as a library: the binaries and the Python package both call [`run`] and [`run_z4ai`], so there is one program, whichever way it was installed.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod codec;
mod commands;
mod display;
mod effort;
mod envelope;
mod limits;
mod npy;
mod progress;
mod results;

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches, Parser};
use commands::Command;
use serde_json::Value as Json;

/// Exit codes, as other tools of this kind use them.
mod exit {
    pub(crate) const DIFFERENT: u8 = 1;
    pub(crate) const FAILED: u8 = 2;
}

pub(crate) const EXIT_CODES: &str = "`COMMAND --help` has examples. Exit codes: 0 for success, 1 when files differ or a check fails, 2 for errors.";

/// What commands say to `-` that need a file: they change it, or read it more than once.
const NO_STANDARD_INPUT: &str = "this command does not take standard input; write it to a file first and name that (a file called \"-\" is \"./-\")";

/// Reads, converts and checks model files of any format.
#[derive(Parser)]
#[command(
    name = "ztensor",
    version,
    about = "Reads, converts and checks model files of any format",
    after_help = EXIT_CODES,
    arg_required_else_help = true,
    max_term_width = 110
)]
struct Arguments {
    #[command(flatten)]
    limits: limits::LimitOptions,
    #[command(subcommand)]
    command: Command,
}

/// What a command found: everything in order, a difference to report by exit code, or a file among several that failed and was already
/// reported. The worse comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Done,
    Different,
    Failed,
}

/// A failure of a command, as it is shown to the user.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    /// What `--json` prints of it.
    document: Json,
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let any: &dyn std::error::Error = &error;
        if let Some(error) = any.downcast_ref::<ztensor::Error>() {
            if error.kind() == ztensor::Kind::NotFound && error.path() == Some(Path::new("-")) {
                return Failure::about(Path::new("-"), "invalid_argument", NO_STANDARD_INPUT);
            }
            let message = error.told(ztensor::Caller::Shell).to_string();
            return Failure { message, document: envelope::describe(error) };
        }
        let kind = match (any.downcast_ref::<z4ai::Error>(), any.is::<std::io::Error>()) {
            (Some(error), _) => error.kind().name(),
            (None, true) => "io",
            (None, false) => "failed",
        };
        let message = error.to_string();
        Failure { document: envelope::sentence(kind, &message), message }
    }
}

impl Failure {
    /// A request that cannot be met as it was made.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Failure { document: envelope::sentence("invalid_argument", &message), message }
    }

    /// A failure of a kind that programs tell apart, with the file that it is about.
    pub(crate) fn about(path: &Path, kind: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let mut document = envelope::sentence(kind, &message);
        document["path"] = Json::from(path.display().to_string());
        Failure { document, message }
    }
}

pub(crate) type Result<T = Outcome> = std::result::Result<T, Failure>;

/// Runs the `ztensor` command with the arguments of a process, the program's name first. Returns the exit code: 0 for success, 1 when
/// files differ or a check fails, 2 for errors.
pub fn run(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    ztensor_store::install();
    finish("ztensor", arguments, |arguments: Arguments| {
        arguments.limits.begin()?;
        with_network(|| arguments.command.run())
    })
}

/// Runs the `z4ai` command in the same way.
pub fn run_z4ai(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    finish("z4ai", arguments, |arguments: codec::Arguments| with_network(|| arguments.run()))
}

/// Runs a command to which files may be URLs.
fn with_network(run: impl FnOnce() -> Result) -> Result {
    #[cfg(feature = "remote")]
    {
        ztensor_remote::install();
        ztensor_remote::with_watcher(progress::of_whole_files, run)
    }
    #[cfg(not(feature = "remote"))]
    run()
}

fn finish<A: CommandFactory + FromArgMatches>(
    program: &str,
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    run: impl FnOnce(A) -> Result,
) -> u8 {
    let words: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let matches = A::command().try_get_matches_from(&words);
    let parsed = matches.and_then(|matches| {
        envelope::begin(program, &matches);
        A::from_arg_matches(&matches).map_err(|error| error.format(&mut A::command()))
    });
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => {
            let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            envelope::begin_unparsed(program, &A::command(), &words);
            if error.use_stderr() && envelope::wants_json() {
                let message = error.to_string();
                let message = message.trim_end().trim_start_matches("error: ");
                let _ = display::say_error(&envelope::sentence("usage", message));
            }
            // Help and version are "errors" to the parser; they print to stdout and succeed. A closed pipe is not worth a word.
            let _ = error.print();
            return if error.use_stderr() { exit::FAILED } else { 0 };
        }
    };
    match run(arguments) {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::Different) => exit::DIFFERENT,
        Ok(Outcome::Failed) => exit::FAILED,
        Err(failure) => {
            if envelope::wants_json() {
                let _ = display::say_error(&failure.document);
            }
            display::complain(&format!("{program}: {}", failure.message));
            exit::FAILED
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of a command and of those below it.
    fn examples(command: &clap::Command) -> Vec<String> {
        let own = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let own = own.lines().filter_map(|line| line.strip_prefix("  ")).map(str::to_owned);
        own.chain(command.get_subcommands().flat_map(examples)).collect()
    }

    /// Runs the parser over every example; says how many there are.
    fn parse(program: &str, command: &clap::Command) -> usize {
        let without = command.get_subcommands().find(|command| examples(command).is_empty());
        assert_eq!(without.map(clap::Command::get_name), None);
        let examples = examples(command);
        for line in &examples {
            let call = line.split(['|', '>']).find(|call| call.trim_start().starts_with(program));
            // What a shell would change stands in quotes.
            let words = call.unwrap().split_whitespace().map(|word| word.trim_matches('\''));
            if let Err(error) = command.clone().try_get_matches_from(words) {
                panic!("{line}: {error}");
            }
        }
        examples.len()
    }

    #[test]
    fn the_examples_in_the_help_are_understood() {
        assert!(parse("ztensor", &Arguments::command()) > 20);
        assert!(parse("z4ai", &codec::Arguments::command()) > 6);
    }
}
