//! The `ztensor` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(ztensor_cli::run(std::env::args_os()))
}
