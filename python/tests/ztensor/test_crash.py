"""Writers that are killed, disks that fill up, and readers beside writers: every open gets the old state or the new one."""

from __future__ import annotations

import random
import resource
import signal
import subprocess
import sys
import time
import warnings
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ztensor.RecoveredFileWarning)
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
        found = tensors(path)
        assert found in (BEFORE, AFTER[operation])
        # The next write tidies up.
        with ztensor.Writer.append(path) as writer:
            writer.write_numpy("next", old(3))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert ztensor.Reader(path).recovered is None
        assert tensors(path) == {**found, "next": 3.0}
        assert [entry.name for entry in tmp_path.iterdir()] == ["model.zt"]


#: Opens the file again and again until it is told to stop, and says what it saw.
WATCHER = """
import collections, os, sys, warnings
import numpy as np
import ztensor
import ztensor.numpy

warnings.simplefilter("ignore")
path, stop, io = sys.argv[1:]
print("ready", flush=True)
opened = 0
while not os.path.exists(stop):
    reader = ztensor.Reader(path, io)
    assert sorted(reader.keys())[:2] == ["a", "b"], reader.keys()
    # Twice, with time in between: what was opened does not change.
    first, others = reader.read_numpy("a"), reader.read_numpy("b", copy=True)
    again = first.copy()
    assert (again == again[0]).all(), "torn"
    assert (others == 1).all(), "torn"
    assert (reader.read_numpy("a", copy=True) == again).all(), "changed"
    opened += 1
print(opened, flush=True)
"""


@pytest.mark.parametrize("small", [True, False], ids=["small", "large"])
def test_readers_beside_a_writer_see_whole_states(tmp_path: Path, small: bool) -> None:
    path, stop = tmp_path / "model.zt", tmp_path / "stop"
    elements = 1 << 12 if small else ELEMENTS
    # One that is large enough not to be written anew each time.
    with ztensor.Writer(path) as writer:
        writer.write_numpy("a", np.zeros(elements, np.float32))
        writer.write_numpy("b", np.ones(elements * 2, np.float32))
    watchers = [
        subprocess.Popen([sys.executable, "-c", WATCHER, str(path), str(stop), io], stdout=subprocess.PIPE, text=True)
        for io in ("mmap", "read")
    ]
    for watcher in watchers:
        assert watcher.stdout is not None and watcher.stdout.readline() == "ready\n"
    rounds = 60 if small else 30
    for number in range(rounds):
        ztensor.replace_tensor(path, "a", np.full(elements, number, np.float32))
        if number % 5 == 0:
            with ztensor.Writer.append(path) as writer:
                writer.write_numpy(f"c{number}", np.zeros(100))
        if number % 7 == 0:
            writer = ztensor.Writer.append(path)
            writer.write_numpy("never", np.zeros(elements))
            writer.discard()
    stop.touch()
    for watcher in watchers:
        output, _ = watcher.communicate()
        assert watcher.returncode == 0, f"a reader died: {watcher.returncode}"
        assert int(output) > 0
    assert path.stat().st_size < 40 * elements


def test_an_unfinished_append_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "model.zt"
    ztensor.numpy.save_file({"precious": old()}, path)
    ztensor.numpy.save_file({"inner": np.arange(4)}, inner := tmp_path / "inner.zt")
    program = """
import os, sys
import numpy as np
import ztensor
w = ztensor.Writer.append(sys.argv[1])
inner = np.frombuffer(open(sys.argv[2], "rb").read(), np.uint8)
w.write_numpy("kept", np.concatenate([np.zeros((1 << 20) - len(inner), np.uint8), inner]))
os._exit(1)
"""
    assert subprocess.run([sys.executable, "-c", program, str(path), str(inner)]).returncode == 1
    # What is behind the last complete state ends like a .zt file, and is none.
    assert path.read_bytes().endswith(inner.read_bytes())
    with pytest.warns(ztensor.RecoveredFileWarning, match="append was interrupted or is still going on") as caught:
        reader = ztensor.Reader(path)
    assert len(caught) == 1
    assert reader.keys() == ["precious"]
    assert reader.recovered is not None and reader.recovered["edit"] == "append"
    assert reader.recovered["unfinished_bytes"] >= 1 << 20
    with pytest.warns(ztensor.RecoveredFileWarning):
        assert ztensor.Reader.from_bytes(path.read_bytes()).keys() == ["precious"]
    with pytest.warns(ztensor.RecoveredFileWarning), ztensor.safe_open(path, "np") as file:
        assert list(file.keys()) == ["precious"]
    command = [sys.executable, "-m", "ztensor", "info", str(path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Not finished: an append" in shown.stdout and "an append" in shown.stderr
    described = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert '"edit": "append"' in described.stdout
    ztensor.replace_tensor(path, "precious", old(7))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tensors(path) == {"precious": 7.0}


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
    limit = {"create": 10 << 20, "append": 10 << 20, "replace": 9 << 20, "remove": 1 << 20}[operation]
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
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ztensor.Reader(path).recovered is None
    assert tensors(path) == BEFORE
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.zt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_named() -> None:
    with pytest.raises(ztensor.ZTensorError, match="Free some space") as caught:
        ztensor.numpy.save_file({"a": old()}, "/dev/full")
    assert caught.value.kind == "no_space"
