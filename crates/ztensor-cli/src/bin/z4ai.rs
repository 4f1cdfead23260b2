//! The `z4ai` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(ztensor_cli::run_z4ai(std::env::args_os()))
}
