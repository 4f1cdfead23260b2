//! The `ztensor` and `z4ai` commands as a library: the binaries and the Python package both call [`run`] and [`run_z4ai`], so there is one program, whichever way it was installed.

mod codec;
mod commands;
mod display;
mod effort;
mod npy;
mod progress;

use std::ffi::OsString;

use clap::Parser;
use commands::Command;

/// Exit codes, as other tools of this kind use them.
mod exit {
    pub(crate) const DIFFERENT: u8 = 1;
    pub(crate) const FAILED: u8 = 2;
}

pub(crate) const EXIT_CODES: &str = "`COMMAND --help` has examples. Exit codes: 0 for success, 1 when files differ or a check fails, 2 for errors.";

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
pub(crate) struct Failure(String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(error.to_string())
    }
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Failure(message.into())
    }
}

pub(crate) type Result<T = Outcome> = std::result::Result<T, Failure>;

/// Runs the `ztensor` command with the arguments of a process, the program's name first. Returns the exit code: 0 for success, 1 when
/// files differ or a check fails, 2 for errors.
pub fn run(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    finish("ztensor", Arguments::try_parse_from(arguments), |arguments| arguments.command.run())
}

/// Runs the `z4ai` command in the same way.
pub fn run_z4ai(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    finish("z4ai", codec::Arguments::try_parse_from(arguments), codec::Arguments::run)
}

fn finish<A>(
    program: &str,
    arguments: std::result::Result<A, clap::Error>,
    run: impl FnOnce(A) -> Result,
) -> u8 {
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are "errors" to the parser; they print to stdout and succeed. A closed pipe is not worth a word.
            let _ = error.print();
            return if error.use_stderr() { exit::FAILED } else { 0 };
        }
    };
    match run(arguments) {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::Different) => exit::DIFFERENT,
        Ok(Outcome::Failed) => exit::FAILED,
        Err(Failure(message)) => {
            display::complain(&format!("{program}: {message}"));
            exit::FAILED
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

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
            let words = call.unwrap().split_whitespace();
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
