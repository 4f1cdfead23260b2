"""The ``ztensor`` command: the same program as the stand-alone binary, and ``ztensor batch``, which needs Python's engines."""

from __future__ import annotations

import signal
import sys

from ._native import run_cli


def main() -> int:
    """Runs the command line and returns its exit code."""
    if sys.argv[1:2] == ["batch"]:
        from ._batch_cli import main as batch

        return batch(sys.argv[2:])
    # There is no Python code to interrupt: Ctrl-C ends the process, as it ends the binary.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_cli(["ztensor", *sys.argv[1:]])
