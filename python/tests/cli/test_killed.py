"""Archives and deltas that are killed or interrupted in the middle: inputs are as they were, and nothing half-written is left."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

IsWriting = Callable[[subprocess.Popen[bytes], Path], bool]

#: Kills per operation, and how many more there may be until one came before the end.
TRIALS = 6
MORE_TRIALS = 60


def command(*arguments: object) -> list[str]:
    module, *rest = map(str, arguments)
    return [sys.executable, "-m", module, *rest]


def run(*arguments: object) -> None:
    result = subprocess.run(command(*arguments), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A model, one that was tuned from it, an archive of the latter and its deltas."""
    folder = tmp_path_factory.mktemp("models")
    generator = np.random.default_rng(1)
    base = {f"layer.{index}": (generator.standard_normal((512, 1024)) * 0.02).astype(np.float32) for index in range(8)}
    tuned = {
        name: values + generator.standard_normal(values.shape).astype(np.float32) * 1e-5
        for name, values in base.items()
    }
    safetensors.numpy.save_file(base, folder / "base.safetensors")
    safetensors.numpy.save_file(tuned, folder / "tuned.safetensors")
    run("ztensor", "archive", folder / "tuned.safetensors", "-o", folder / "tuned.z4ai.safetensors")
    run(
        "ztensor",
        "delta",
        "make",
        folder / "tuned.safetensors",
        "--base",
        folder / "base.safetensors",
        "-o",
        folder / "tuned.z4dm",
    )
    run(
        "z4ai",
        "delta",
        folder / "tuned.safetensors",
        "-r",
        folder / "base.safetensors",
        "-o",
        folder / "tuned.delta",
        "--dtype",
        "fp32",
    )
    yield folder
    shutil.rmtree(folder)


#: The inputs of each operation, its result, and the arguments that name them.
OPERATIONS: dict[str, tuple[list[str], str, Callable[[Path], list[object]]]] = {
    "archive": (
        ["tuned.safetensors"],
        "made.zstn",
        lambda at: ["ztensor", "archive", at / "tuned.safetensors", "-o", at / "made.zstn"],
    ),
    "restore": (
        ["tuned.z4ai.safetensors"],
        "tuned.safetensors",
        lambda at: ["ztensor", "restore", at / "tuned.z4ai.safetensors", "-o", at / "tuned.safetensors"],
    ),
    "hydrate": (["tuned.z4ai.safetensors"], "tuned.safetensors", lambda at: ["ztensor", "hydrate", at]),
    "delta make": (
        ["tuned.safetensors", "base.safetensors"],
        "tuned.z4dm",
        lambda at: [
            "ztensor",
            "delta",
            "make",
            at / "tuned.safetensors",
            "--base",
            at / "base.safetensors",
            "-o",
            at / "tuned.z4dm",
        ],
    ),
    "delta apply": (
        ["tuned.z4dm", "base.safetensors"],
        "tuned.safetensors",
        lambda at: [
            "ztensor",
            "delta",
            "apply",
            at / "tuned.z4dm",
            "--base",
            at / "base.safetensors",
            "-o",
            at / "tuned.safetensors",
        ],
    ),
    "z4ai delta": (
        ["tuned.safetensors", "base.safetensors"],
        "tuned.delta",
        lambda at: [
            "z4ai",
            "delta",
            at / "tuned.safetensors",
            "-r",
            at / "base.safetensors",
            "-o",
            at / "tuned.delta",
            "--dtype",
            "fp32",
        ],
    ),
    "z4ai apply": (
        ["tuned.delta", "base.safetensors"],
        "tuned.safetensors",
        lambda at: ["z4ai", "apply", at / "tuned.delta", "-r", at / "base.safetensors", "-o", at / "tuned.safetensors"],
    ),
}


def has_unnamed_files(folder: Path) -> bool:
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR))
    except (AttributeError, OSError):
        return False
    return True


@pytest.mark.parametrize("operation", OPERATIONS)
def test_killed_in_the_middle(models: Path, tmp_path: Path, operation: str, is_writing: IsWriting) -> None:
    inputs, result, arguments = OPERATIONS[operation]
    spread = random.Random(operation)
    for name in inputs:
        shutil.copyfile(models / name, tmp_path / name)
    run(*arguments(tmp_path))
    expected = (tmp_path / result).read_bytes()
    interrupted = trials = 0
    while trials < TRIALS or (interrupted == 0 and trials < MORE_TRIALS):
        trials += 1
        (tmp_path / result).unlink(missing_ok=True)
        child = subprocess.Popen(command(*arguments(tmp_path)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while child.poll() is None and not is_writing(child, tmp_path):
            time.sleep(0.0005)
        time.sleep(spread.random() * 0.02)
        end = spread.choice([signal.SIGKILL, signal.SIGINT])
        child.send_signal(end)
        assert b"Traceback" not in child.communicate()[1]
        assert child.returncode in (0, -end)
        if (tmp_path / result).exists():
            assert (tmp_path / result).read_bytes() == expected
        else:
            interrupted += 1
        for name in inputs:
            assert (tmp_path / name).read_bytes() == (models / name).read_bytes()
        for entry in tmp_path.iterdir():
            if entry.name not in {*inputs, result}:
                # Between its completion and its name.
                assert entry.name.startswith(".") and entry.name.endswith(".partial")
                assert entry.read_bytes() == expected or not has_unnamed_files(tmp_path)
                entry.unlink()
    assert interrupted > 0
    (tmp_path / result).unlink(missing_ok=True)
    run(*arguments(tmp_path))
    assert (tmp_path / result).read_bytes() == expected


def test_large_files_need_little_memory(tmp_path: Path) -> None:
    """Two sparse files of a gibibyte, in an address space that could not hold one of them besides the interpreter."""
    old, new = tmp_path / "old.bin", tmp_path / "new.bin"
    delta = tmp_path / "new.delta"
    for path, place in ((old, 100), (new, 200)):
        with path.open("wb") as file:
            file.truncate(1 << 30)
            file.seek(place)
            file.write(b"something")
    limit = 1 << 30

    def start_limited(*arguments: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command(*arguments, "--threads", 1),
            stdout=subprocess.PIPE,
            env={"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": ":".join(sys.path)},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )

    with start_limited("z4ai", "delta", new, "-r", old, "-o", delta, "--dtype", "fp32") as making:
        assert making.wait() == 0
    assert delta.stat().st_size < 1 << 16
    # Into a pipe: the result would take a gibibyte on the disk.
    with start_limited("z4ai", "apply", delta, "-r", old, "-o", "-") as applying:
        assert applying.stdout is not None
        assert applying.stdout.read(209) == bytes(200) + b"something"
        length = 209
        while piece := applying.stdout.read(1 << 20):
            length += len(piece)
        assert length == 1 << 30
        assert applying.wait() == 0
