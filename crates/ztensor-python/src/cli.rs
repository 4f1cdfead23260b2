//! The command line, as `pip install` brings it: the same program as the stand-alone binary.

use std::ffi::OsString;

use crate::work::Work;
use pyo3::prelude::*;

/// Runs the ztensor command with the arguments of a process, the program's name first. Returns the exit code.
#[pyfunction]
pub(crate) fn run_cli(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.work(|| ztensor_cli::run(arguments))
}

/// Runs the z4ai command in the same way.
#[pyfunction]
pub(crate) fn run_z4ai(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.work(|| ztensor_cli::run_z4ai(arguments))
}
