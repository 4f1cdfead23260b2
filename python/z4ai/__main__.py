"""The z4ai command: the same program as the stand-alone binary."""

from __future__ import annotations

import sys

from ztensor._native import run_z4ai


def main() -> int:
    """Run the command with the arguments of the process."""
    return run_z4ai(["z4ai", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
