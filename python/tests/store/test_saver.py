"""Savers: a training loop goes on while its states are stored, and what was stored stays, whatever happens."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ztensor
from ztensor import Saver, Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store", create=True)


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    torch.manual_seed(step)
    loss = model(torch.randn(8, 12)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def fresh() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.Linear(16, 4))
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def state(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> dict[str, Any]:
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}


def test_a_run_goes_on_where_it_ended(store: Store) -> None:
    model, optimizer = fresh()
    for step in range(10):
        train(model, optimizer, step)
    expected = state(model, optimizer, 9)

    model, optimizer = fresh()
    with store.saver("run") as saver:
        assert saver.latest() is None
        assert saver.next_step() == 0
        for step in range(6):
            train(model, optimizer, step)
            assert saver.save(step, state(model, optimizer, step))
    assert store.keys("run") == [f"run/step-{step}" for step in range(6)]
    assert store.info("run/step-3")["metadata"]["step"] == 3

    model, optimizer = fresh()
    with store.saver("run") as saver:
        tree = saver.load()
        assert tree["step"] == 5 == saver.latest()
        model.load_state_dict(tree["model"])
        optimizer.load_state_dict(tree["optimizer"])
        for step in range(saver.next_step(), 10):
            train(model, optimizer, step)
            saver.save(step, state(model, optimizer, step))
    found = store.load_tree("run/step-9")
    for name, tensor in expected["model"].items():
        assert torch.equal(found["model"][name], tensor)
    for number, moments in expected["optimizer"]["state"].items():
        for name, tensor in moments.items():
            assert torch.equal(found["optimizer"]["state"][number][name], tensor), (number, name)
    assert found["optimizer"]["param_groups"] == expected["optimizer"]["param_groups"]


def test_a_state_is_what_it_was_when_it_was_saved(store: Store) -> None:
    """What the program does to its tensors afterwards does not show."""
    weight = torch.zeros(1 << 18)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ztensor.SlowSaveWarning)
        with store.saver("run") as saver:
            for step in range(8):
                weight.fill_(step)
                saver.save(step, {"weight": weight})
                weight.fill_(-1)
    for step in range(8):
        assert torch.equal(store.load_tree(f"run/step-{step}")["weight"], torch.full((1 << 18,), float(step)))


def test_trees_of_everything(store: Store) -> None:
    tied = torch.arange(12.0)
    tree = {
        "tied": [tied, tied],
        "tuple": (1, 2.5, None, True, "text", b"bytes"),
        "sparse": torch.eye(4).to_sparse_csr(),
        "array": np.arange(5, dtype=np.int16),
        "scalar": np.float32(1.5),
        3: torch.ones(2, dtype=torch.bfloat16).t(),
        "empty": torch.zeros(0, 4),
        "complex": torch.ones(3, dtype=torch.complex128),
    }
    with store.saver("run") as saver:
        saver.save(0, tree)
        saver.save(1, {"no": "tensors"})
    found = store.load_tree("run/step-0")
    assert found["tied"][0] is found["tied"][1]
    assert torch.equal(found["tied"][0], tied)
    assert found["tuple"] == tree["tuple"]
    assert torch.equal(found["sparse"].to_dense(), torch.eye(4))
    np.testing.assert_array_equal(found["array"], np.arange(5, dtype=np.int16))
    assert found["scalar"] == np.float32(1.5)
    assert found[3].dtype == torch.bfloat16
    assert found["empty"].shape == (0, 4)
    assert found["complex"].dtype == torch.complex128
    assert store.load_tree("run/step-1") == {"no": "tensors"}
    arrays = store.load_tree("run/step-0", framework="np")
    assert isinstance(arrays["tied"][0], np.ndarray)


def test_what_is_saved_and_what_stays(store: Store) -> None:
    with store.saver("run", every=5, keep=2, keep_every=20) as saver:
        saved = [step for step in range(51) if saver.save(step, {"weight": torch.full((64,), float(step))})]
    assert saved == list(range(0, 51, 5))
    assert saver.steps() == [0, 20, 40, 45, 50]
    for step in saver.steps():
        assert float(store.load_tree(f"run/step-{step}")["weight"][0]) == step
    for wrong in ({"every": 0}, {"keep": 0}, {"keep_every": 5}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            store.saver("run", **wrong)  # type: ignore[arg-type]


class Gate(Store):
    """A store in which nothing is stored until it is allowed."""

    open_gate: threading.Event
    started: threading.Event

    def add_snapshot(self, *arguments: Any, **options: Any) -> Any:
        self.started.set()
        assert self.open_gate.wait(300)
        return super().add_snapshot(*arguments, **options)


@pytest.fixture
def gate(store: Store) -> Gate:
    gate = Gate(store.location)
    gate.open_gate, gate.started = threading.Event(), threading.Event()
    return gate


def warned_by(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The warnings of savers from now on; the gate opens at the first."""
    told: list[str] = []

    def warn(message: str, category: type[Warning], stacklevel: int) -> None:
        assert category is ztensor.SlowSaveWarning
        told.append(message)
        gate.open_gate.set()

    monkeypatch.setattr("ztensor._saver.warnings.warn", warn)
    return told


def test_two_states_wait_and_a_third_warns(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    told = warned_by(gate, monkeypatch)
    with gate.saver("run") as saver:
        saver.save(0, {"weight": torch.zeros(16)})
        saver.save(1, {"weight": torch.zeros(16)})
        assert gate.keys() == []
        assert told == []
        saver.save(2, {"weight": torch.zeros(16)})
        assert len(told) == 1
        assert "2 earlier states" in told[0]
        assert "run/step-0" in gate
    assert saver.steps() == [0, 1, 2]


def test_memory_is_bounded(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    told = warned_by(gate, monkeypatch)
    with gate.saver("run", memory=1000) as saver:
        saver.save(0, {"weight": torch.zeros(1000)})
        assert told == []
        saver.save(1, {"weight": torch.zeros(10)})
        assert len(told) == 1
        assert "an earlier state" in told[0]
    assert saver.steps() == [0, 1]


def test_errors_come_back_at_the_next_call(store: Store) -> None:
    saver = store.saver("run")
    saver.save(0, {"weight": torch.zeros(4)})
    saver.wait()
    saver.save(0, {"weight": torch.ones(4)})
    with pytest.raises(ztensor.ZTensorError, match="run/step-0") as caught:
        saver.wait()
    assert caught.value.kind == "duplicate"
    assert "step 0" in caught.value.__notes__[0]
    saver.save(1, {"weight": torch.ones(4)})
    saver.close()
    assert saver.steps() == [0, 1]
    with pytest.raises(ValueError, match="closed"):
        saver.save(2, {})
    with pytest.raises(ztensor.ZTensorError, match="run/step-1"), store.saver("run") as second:
        second.save(1, {"weight": torch.zeros(4)})
    with pytest.raises(ZeroDivisionError) as ended, store.saver("run") as third:
        third.save(1, {"weight": torch.zeros(4)})
        raise ZeroDivisionError
    assert "not stored" in ended.value.__notes__[0]
    with pytest.raises(ztensor.ZTensorError, match="object"):
        store.saver("run").save(5, {"bad": object()})
    with pytest.raises(FileNotFoundError, match="no steps"):
        store.saver("other").load()
    assert isinstance(saver, Saver)


def test_a_program_that_ends_early_stores_what_it_saved(store: Store) -> None:
    code = """
import sys, numpy, ztensor
saver = ztensor.Store(sys.argv[1]).saver("run")
saver.save(0, {"weight": numpy.zeros(1 << 20)})
saver.save(1, {"weight": numpy.ones(1 << 20)})
"""
    subprocess.run([sys.executable, "-c", code, str(store.location)], check=True, timeout=600)
    assert store.saver("run").steps() == [0, 1]
    np.testing.assert_array_equal(store.load_tree("run/step-1")["weight"], np.ones(1 << 20))


FULL = """
import resource, sys, numpy, ztensor
store = ztensor.Store(sys.argv[1])
saver = store.saver("run")
noise = numpy.random.default_rng(0).standard_normal(1 << 15).astype("float32")
saver.save(0, {"weight": noise})
saver.wait()
limit = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limit[1]))
saver.save(1, {"weight": noise[::-1].copy()})
try:
    saver.wait()
except ztensor.ZTensorError as error:
    print(saver.steps(), error.__notes__, error)
resource.setrlimit(resource.RLIMIT_FSIZE, limit)
saver.save(2, {"weight": noise + 1})
saver.close()
print(saver.steps(), store.verify(decode=True))
"""


def test_storage_that_takes_no_more(store: Store) -> None:
    """The step is not stored, which is said; what was stored stays, and the run goes on when there is room again."""
    said = subprocess.run(
        [sys.executable, "-c", FULL, str(store.location)], check=True, timeout=600, capture_output=True, text=True
    ).stdout.splitlines()
    assert said[0].startswith("[0] ['while step 1 of run was stored'] ")
    assert "too large" in said[0]
    assert said[1] == "[0, 2] []"


ENDLESS = """
import itertools, sys, warnings, numpy, ztensor
warnings.simplefilter("ignore")
saver = ztensor.Store(sys.argv[1]).saver("run", keep=4)
random = numpy.random.default_rng(0)
noise = random.standard_normal(1 << 15).astype("float32")
for number, step in enumerate(itertools.count(saver.next_step())):
    saver.save(step, {"weight": noise + numpy.float32(step), "step": step})
    if number == 0:
        saver.wait()
        print("stored", flush=True)
"""


def test_killed_at_any_moment(store: Store) -> None:
    """What was stored stays, in order and whole; a killed process loses what was on its way, and nothing else."""
    moments = random.Random(5)
    noise = np.random.default_rng(0).standard_normal(1 << 15).astype("float32")
    before = -1
    for _ in range(int(os.environ.get("KILLS", "10"))):
        process = subprocess.Popen(
            [sys.executable, "-c", ENDLESS, str(store.location)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        # At least one step is stored before the kill, however slow the machine is.
        assert process.stdout.readline() == "stored\n"
        try:
            process.wait(moments.uniform(0, 0.4))
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        assert process.returncode == -9
        saver = store.saver("run")
        steps = saver.steps()
        assert steps == list(range(steps[0], steps[-1] + 1))
        assert steps[-1] > before
        for step in steps:
            tree = store.load_tree(f"run/step-{step}")
            assert tree["step"] == step
            np.testing.assert_array_equal(tree["weight"], noise + np.float32(step))
        before = steps[-1]
    assert store.verify(decode=True) == []
