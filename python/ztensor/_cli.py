"""The ``ztensor`` command: the same program as the stand-alone binary."""

from __future__ import annotations

import signal
import sys

from ._native import run_cli


def main() -> int:
    """Runs the command line and returns its exit code."""
    # There is no Python code to interrupt: Ctrl-C ends the process, as it ends the binary.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_cli(["ztensor", *sys.argv[1:]])
