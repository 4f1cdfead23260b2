"""The ``z4ai`` command: the same program as the stand-alone binary."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from ztensor._native import run_z4ai

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code.

    :param argv: the arguments, without the program's name; ``None`` takes those of the process.
    """
    if argv is None:
        # There is no Python code to interrupt: Ctrl-C ends the process, as it ends the binary.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        argv = sys.argv[1:]
    return run_z4ai(["z4ai", *argv])


def __dir__() -> list[str]:
    return __all__
