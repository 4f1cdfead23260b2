"""The stubs say what the extension module is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_stubs_match_the_module() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "ztensor._native", "--ignore-disjoint-bases"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_public_interface_is_typed(tmp_path: Path) -> None:
    sample = Path(__file__).with_name("typed_sample.py")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(sample)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    done = subprocess.run([sys.executable, "-W", "error", str(sample)], cwd=tmp_path, check=False)
    assert done.returncode == 0
