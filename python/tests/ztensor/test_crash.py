"""Writers that are killed, and disks that fill up: what was there before is intact, or comes back with `repair`."""

from __future__ import annotations

import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ztensor
import ztensor.numpy

#: Kills per operation, spread over its duration.
TRIALS = 12
ELEMENTS = 1 << 20

#: Each says when it starts, because importing takes longer than the operation.
OPERATIONS = {
    "create": "ztensor.numpy.save_file({'a': new, 'b': new, 'c': new}, path)",
    "append": "w = ztensor.Writer.append(path)\nw.write_numpy('c', new)\nw.write_numpy('d', new)\nw.finish()",
    "replace": "ztensor.replace_tensor(path, 'a', new)",
    "remove": "ztensor.remove_tensors(path, path, ['b'])",
}
CHILD = """
import sys
import numpy as np
import ztensor
import ztensor.numpy

path = sys.argv[1]
new = np.full({elements}, 2, np.float32)
print("ready", flush=True)
sys.stdin.readline()
{operation}
print("done", flush=True)
"""


def old(value: float = 1) -> np.ndarray:
    return np.full(ELEMENTS, value, np.float32)


def start(operation: str, path: Path) -> subprocess.Popen[str]:
    program = CHILD.format(elements=ELEMENTS, operation=OPERATIONS[operation])
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    return child


def let_go(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def duration(operation: str, path: Path) -> float:
    """How long the operation takes when nobody interferes."""
    child = start(operation, path)
    begun = time.monotonic()
    let_go(child)
    assert child.stdout is not None and child.stdout.readline() == "done\n"
    taken = time.monotonic() - begun
    child.wait()
    return taken


def tensors(path: Path) -> dict[str, float]:
    """The value of each tensor; fails if one of them mixes old and new."""
    try:
        loaded = ztensor.numpy.load_file(path, copy=True)
    except ztensor.ZTensorError as error:
        assert error.kind == "truncated", error
        assert "repair" in str(error)
        assert ztensor.repair(path)
        loaded = ztensor.numpy.load_file(path, copy=True)
    for name, array in loaded.items():
        assert (array == array[0]).all(), f"{name} is a mix"
    return {name: float(array[0]) for name, array in loaded.items()}


BEFORE = {"a": 1.0, "b": 1.0}
AFTER = {
    "create": {"a": 2.0, "b": 2.0, "c": 2.0},
    "append": {"a": 1.0, "b": 1.0, "c": 2.0, "d": 2.0},
    "replace": {"a": 2.0, "b": 1.0},
    "remove": {"a": 1.0},
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_killed_in_the_middle(tmp_path: Path, operation: str) -> None:
    path = tmp_path / "model.zt"
    spread = random.Random(operation)

    def restore() -> None:
        with ztensor.Writer(path) as writer:
            for name, value in BEFORE.items():
                writer.write_numpy(name, old(value), checksum="crc32c")

    restore()
    whole = duration(operation, path)
    assert tensors(path) == AFTER[operation]
    for _ in range(TRIALS):
        restore()
        child = start(operation, path)
        let_go(child)
        time.sleep(spread.random() * whole)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert tensors(path) in (BEFORE, AFTER[operation])


def test_killed_while_creating_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "model.zt"
    child = start("create", path)
    let_go(child)
    child.send_signal(signal.SIGKILL)
    child.wait()
    if path.exists():
        assert tensors(path) == AFTER["create"]


@pytest.mark.parametrize("operation", ["create", "append", "replace", "remove"])
def test_a_file_that_may_not_grow(tmp_path: Path, operation: str) -> None:
    """A limit on the size of files fails writes half-way, as a full disk does."""
    path = tmp_path / "model.zt"
    ztensor.numpy.save_file({name: old(value) for name, value in BEFORE.items()}, path)
    limit = {"create": 10 << 20, "append": 10 << 20, "replace": 10 << 20, "remove": 1 << 20}[operation]
    program = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" + CHILD.format(
        elements=ELEMENTS, operation=OPERATIONS[operation]
    )
    child = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        input="\n",
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert child.returncode == 1
    assert "cannot write: File too large" in child.stderr
    assert tensors(path) == BEFORE
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.zt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_named() -> None:
    with pytest.raises(ztensor.ZTensorError, match="Free some space") as caught:
        ztensor.numpy.save_file({"a": old()}, "/dev/full")
    assert caught.value.kind == "no_space"
