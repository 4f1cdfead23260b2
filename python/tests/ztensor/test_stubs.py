"""The stubs say what the extension module is."""

from __future__ import annotations

import subprocess
import sys


def test_the_stubs_match_the_module() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "ztensor._native", "--ignore-disjoint-bases"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
