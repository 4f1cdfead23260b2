"""Fixtures that several test files share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def models() -> Path:
    """A folder of packages that carry real weights. `make test-python` fills it."""
    folder = Path(os.environ.get("ZTENSOR_MODELS", PROJECT / ".models"))
    if not folder.is_dir():
        pytest.skip(f"no real model files: {folder} does not exist; `make test-python` creates it")
    return folder


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    """One array of every NumPy type and edge of shapes."""
    random = np.random.default_rng(0)
    values = {
        name: random.integers(0, 100, size=(3, 5)).astype(name)
        for name in [
            "float64",
            "float32",
            "float16",
            "int64",
            "int32",
            "int16",
            "int8",
            "uint64",
            "uint32",
            "uint16",
            "uint8",
        ]
    }
    return values | {
        "bool": random.integers(0, 2, size=7).astype(bool),
        "complex64": (random.standard_normal(4) + 1j * random.standard_normal(4)).astype(np.complex64),
        "complex128": random.standard_normal((2, 2)) + 1j,
        "scalar": np.array(3.5),
        "empty": np.zeros((0, 4), dtype=np.float32),
        "large": random.standard_normal((700, 900)).astype(np.float32),
    }


@pytest.fixture
def run_python() -> Callable[[str], str]:
    """Runs a program in a process of its own and returns what it prints."""

    def run(program: str) -> str:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
