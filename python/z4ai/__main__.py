"""The ``z4ai`` command: the same program as the stand-alone binary."""

from __future__ import annotations

import signal
import sys

from ztensor._native import run_z4ai


def main() -> int:
    """Runs the command line and returns its exit code."""
    # There is no Python code to interrupt: Ctrl-C ends the process, as it ends the binary.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_z4ai(["z4ai", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
