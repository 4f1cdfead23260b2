"""Stores in a directory: what goes in comes back, byte for byte and tensor by tensor."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import ztensor
from ztensor import Store


def tensors(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "lm_head.weight": torch.randn(64, 48, generator=generator).bfloat16(),
        "norm.weight": torch.randn(48, generator=generator),
    }


def checkpoint(folder: Path, seed: int) -> Path:
    """A folder as trainers leave it: weights, an optimizer's state, and text."""
    folder.mkdir(parents=True)
    save_file(tensors(seed), folder / "model.safetensors")
    torch.save({"exp_avg": torch.full((48,), float(seed)), "step": seed}, folder / "optimizer.pt")
    (folder / "config.json").write_text('{"hidden_size": 48}')
    (folder / "logs").mkdir()
    (folder / "logs" / "train.txt").write_text(f"step {seed}\n")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "models", create=True)
    for step in (1, 2):
        store.add(
            checkpoint(tmp_path / f"checkpoint-{step}", step), f"run/step-{step}", metadata={"loss": 1.5, "step": step}
        )
    return store


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_comes_back_byte_for_byte(store: Store, tmp_path: Path) -> None:
    report = store.get("run/step-2", tmp_path / "restored")
    assert files_of(tmp_path / "restored") == files_of(tmp_path / "checkpoint-2")
    assert report["files"] == 4
    assert report["bytes"] == sum(map(len, files_of(tmp_path / "restored").values()))
    assert Path(report["path"]) == tmp_path / "restored"


def test_what_an_add_reports(store: Store, tmp_path: Path) -> None:
    report = store.add(tmp_path / "checkpoint-1", "again")
    assert report["name"] == "again"
    assert report["parent"] == "run/step-1"
    assert report["stored_bytes"] == 0
    assert report["duplicates"] > 0
    assert report["original_bytes"] == sum(map(len, files_of(tmp_path / "checkpoint-1").values()))
    with pytest.raises(ztensor.ZTensorError) as caught:
        store.add(tmp_path / "checkpoint-1", "again")
    assert caught.value.kind == "duplicate"


def test_a_dry_run_stores_nothing(store: Store, tmp_path: Path) -> None:
    before = store.stats()
    report = store.add(checkpoint(tmp_path / "new", 9), "run/step-9", dry_run=True)
    assert report["stored_bytes"] > 0
    assert "run/step-9" not in store
    assert store.stats() == before


def test_bases(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "near"
    folder.mkdir()
    near = {name: tensor.clone() for name, tensor in tensors(1).items()}
    near["lm_head.weight"][0, 0] += 1
    save_file(near, folder / "model.safetensors")
    assert store.add(folder, "auto", dry_run=True)["deltas"] > 0
    assert store.add(folder, "none", base=None, dry_run=True)["deltas"] == 0
    named = store.add(folder, "named", base="run/step-1")
    assert named["deltas"] > 0
    assert named["parent"] == "run/step-1"
    with pytest.raises(FileNotFoundError):
        store.add(folder, "wrong", base="nothing")


def test_a_checkpoint_reads_like_a_file(store: Store) -> None:
    reader = store["run/step-2"]
    assert isinstance(reader, ztensor.Reader)
    assert set(reader.keys()) == {"lm_head.weight", "norm.weight", "exp_avg"}
    np.testing.assert_array_equal(reader.read_numpy("norm.weight"), tensors(2)["norm.weight"].numpy())
    assert torch.equal(reader.read_torch("lm_head.weight"), tensors(2)["lm_head.weight"])
    assert float(reader["exp_avg"][3]) == 2.0
    assert {name for name, _ in reader.items()} == set(reader.keys())
    np.testing.assert_array_equal(reader.read_slice("norm.weight", np.s_[3:7]), tensors(2)["norm.weight"].numpy()[3:7])


def test_loading(store: Store) -> None:
    arrays = store.load("run/step-1")
    assert set(arrays) == {"lm_head.weight", "norm.weight", "exp_avg"}
    np.testing.assert_array_equal(arrays["norm.weight"], tensors(1)["norm.weight"].numpy())
    loaded = store.load("run/step-1", framework="pt", file="model.safetensors")
    assert set(loaded) == set(tensors(1))
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors(1).items())
    assert set(store.load("run/step-1", keys=["norm.weight"])) == {"norm.weight"}
    with pytest.raises(ValueError, match="framework"):
        store.load("run/step-1", framework="tf")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        store.load("run/step-1", file="absent.pt")


def test_tensors_of_one_name_in_two_files(tmp_path: Path) -> None:
    folder = tmp_path / "both"
    folder.mkdir()
    weight = torch.arange(64.0)
    save_file({"weight": weight, "bias": weight[:8].clone()}, folder / "model.safetensors")
    torch.save({"weight": weight / 2}, folder / "ema.pt")
    np.savez(folder / "extra.npz", other=np.arange(100, dtype=np.int16))
    store = Store(tmp_path / "store", create=True)
    store.add(folder, "both")
    reader = store["both"]
    assert set(reader.keys()) == {"model.safetensors::weight", "ema.pt::weight", "bias", "other"}
    assert torch.equal(reader.read_torch("ema.pt::weight"), weight / 2)
    assert torch.equal(reader.read_torch("model.safetensors::weight"), weight)
    np.testing.assert_array_equal(reader.read_numpy("other"), np.arange(100, dtype=np.int16))


def test_lists(store: Store) -> None:
    assert store.keys() == ["run/step-1", "run/step-2"] == list(store)
    assert len(store) == 2
    assert "run/step-1" in store
    assert "run" not in store
    assert store.keys("other") == []
    listed = store.list("run")
    assert [listing["name"] for listing in listed] == store.keys()
    assert listed[0]["metadata"] == {"loss": 1.5, "step": 1}
    assert listed[1]["files"] == 4
    assert listed[1]["tensors"] == 3
    assert [listing["name"] for listing in store.log()] == store.keys()
    info = store.info("run/step-1")
    assert {file["path"] for file in info["files"]} == {
        "config.json",
        "logs",
        "logs/train.txt",
        "model.safetensors",
        "optimizer.pt",
    }
    assert store.info()["mode"] == "shared"
    stats = store.stats()
    assert stats["checkpoints"] == 2
    assert stats["logical_bytes"] == sum(listing["logical_bytes"] for listing in listed)
    assert stats["stored_bytes"] <= stats["pack_bytes"]


def test_differences(store: Store) -> None:
    same = store.diff("run/step-1", "run/step-1")
    assert same["identical"] == 3
    assert not same["changed"]
    assert not same["files"]
    difference = store.diff("run/step-1", "run/step-2")
    assert len(difference["changed"]) == 3
    assert difference["files"] == ["logs/train.txt"]


def test_removing_and_collecting(tmp_path: Path) -> None:
    store = Store(tmp_path / "models", create=True, grace=0)
    for step in (1, 2, 3, 4):
        store.add(checkpoint(tmp_path / str(step), step), f"run/step-{step}")
    store.add(tmp_path / "1", "kept")
    dry = store.prune("run", keep_last=1, keep_every=2, dry_run=True)
    assert dry["removed"] == ["run/step-1", "run/step-3"]
    assert len(store) == 5
    report = store.prune("run", keep_last=1, keep_every=2)
    assert report["kept"] == ["run/step-2", "run/step-4"]
    assert report["stored_after"] < report["stored_before"]
    assert store.keys() == ["kept", "run/step-2", "run/step-4"]
    store.remove("run/step-2")
    with pytest.raises(ztensor.ZTensorError, match="removed"):
        store["run/step-2"]
    assert store.gc(now=True, force=True, dry_run=True)["proposed"] > 0
    assert store.gc(now=True, force=True)["deleted"] > 0
    assert store.verify(decode=True) == []
    store.get("kept", tmp_path / "restored")
    assert files_of(tmp_path / "restored") == files_of(tmp_path / "1")


def test_pins_keep_what_was_removed(tmp_path: Path) -> None:
    store = Store(tmp_path / "models", create=True, grace=0)
    store.add(checkpoint(tmp_path / "one", 1), "one")
    pin = store.pin("one")
    assert [found["pin"] for found in store.pins()] == [pin]
    store.remove("one")
    assert store.gc(now=True, force=True)["deleted"] == 0
    Store(tmp_path / "models").unpin(pin)
    assert store.pins() == []
    assert store.gc(now=True, force=True)["deleted"] > 0
    with pytest.raises(ValueError, match="no pin"):
        store.unpin("one")


def test_damage_is_named(store: Store) -> None:
    for pack in Path(store.location).glob("packs/*/*.zt"):
        data = bytearray(pack.read_bytes())
        data[len(data) // 2] ^= 1
        pack.chmod(0o644)
        pack.write_bytes(data)
    problems = store.verify()
    assert {problem["name"] for problem in problems} == {"run/step-1", "run/step-2"}
    assert all(problem["kind"] == "checksum" for problem in problems)


def test_stores_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no store"):
        Store(tmp_path / "models")
    store = Store(tmp_path / "models", create=True)
    again = Store(tmp_path / "models", create=True)
    assert again.info() == store.info()
    assert Path(again.location) == tmp_path / "models"
    with pytest.raises(FileNotFoundError):
        store["nothing"]
    with pytest.raises(ValueError, match="name"):
        store.add(tmp_path, "../out")


def test_progress_and_interruption(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "large"
    folder.mkdir()
    rng = np.random.default_rng(0)
    save_file({f"t{n}": torch.from_numpy(rng.standard_normal(1 << 20)) for n in range(12)}, folder / "m.safetensors")
    calls: list[tuple[int, int]] = []
    store.add(folder, "large", progress=lambda done, total: calls.append((done, total)))
    size = (folder / "m.safetensors").stat().st_size
    assert calls[-1] == (size, size)
    assert all(done <= total == size for done, total in calls)

    class StoppedError(Exception):
        pass

    told: list[bool] = []

    def stop(done: int, total: int) -> None:
        told.append(done < total)
        raise StoppedError

    with pytest.raises(StoppedError):
        store.add(folder, "stopped", base=None, progress=stop)
    # Work that takes no tenth of a second is told of at its end only, when there is nothing left to stop.
    assert len(told) == 1
    assert not (told[0] and "stopped" in store)
    assert store.verify() == []


def test_the_interpreter_is_free_meanwhile(store: Store, tmp_path: Path) -> None:
    """Two threads add at the same time, and Python code runs beside them."""
    folders = [checkpoint(tmp_path / f"t{n}", 10 + n) for n in range(4)]
    failures: list[BaseException] = []

    def add(number: int) -> None:
        try:
            store.add(folders[number], f"threads/{number}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(store.keys("threads")) == 4


def test_two_processes_add_one_name(store: Store, tmp_path: Path) -> None:
    code = "import sys, ztensor; ztensor.Store(sys.argv[1]).add(sys.argv[2], 'race')"
    command = [sys.executable, "-c", code, str(store.location), str(tmp_path / "checkpoint-1")]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    outcomes: list[tuple[int, Any]] = []
    for process in running:
        _, errors = process.communicate(timeout=300)
        outcomes.append((process.returncode, errors))
    assert sorted(code != 0 for code, _ in outcomes) == [False, True, True], outcomes
    assert store.verify(decode=True) == []


FULL = """
import resource, sys, ztensor
store = ztensor.Store(sys.argv[1])
limit = resource.getrlimit(resource.RLIMIT_FSIZE)
told = []
works = {
    "add": lambda: store.add(sys.argv[2], "new/one", base=None),
    "prune": lambda: store.prune("run", keep_last=1),
}
# Files of more bytes than this cannot be written: no records; records, but no packs.
for what, most in (("add", 0), ("prune", 0), ("add", 20_000), ("prune", 20_000)):
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limit[1]))
    try:
        works[what]()
        told.append("done")
    except ztensor.ZTensorError as error:
        told.append(error.kind)
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert store.verify(decode=True) == []
    assert "new/one" not in store, told
    assert ("run/step-1" in store) == (told[3:4] != ["done"]), told
    assert "run/step-2" in store, told
print(told)
store.add(sys.argv[2], "new/one")
"""


def test_a_directory_that_takes_no_more(store: Store, tmp_path: Path) -> None:
    """Adding and pruning fail, say so and leave nothing behind; what was there stays, and there is room again later."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "large.npz", noise=rng.standard_normal(1 << 15))
    command = [sys.executable, "-c", FULL, str(store.location), str(tmp_path / "large.npz")]
    said = subprocess.run(command, check=True, timeout=600, capture_output=True, text=True).stdout
    # Of a record that cannot be created nobody knows whether it is there, until it is read back.
    assert said.strip() == "['io', 'outcome_unknown', 'io', 'done']"
    assert "new/one" in store
    assert [path for path in Path(store.location).rglob("*") if path.name.startswith(".") and path.is_file()] == []
    store.get("run/step-2", tmp_path / "again")
    assert files_of(tmp_path / "again") == files_of(tmp_path / "checkpoint-2")


def test_hints_are_calls_and_at_the_shell_commands(tmp_path: Path) -> None:
    with pytest.raises(ztensor.ZTensorError) as nowhere:
        ztensor.Store(tmp_path / "models")
    store = ztensor.Store(tmp_path / "models", create=True)
    with pytest.raises(ztensor.ZTensorError) as absent:
        store.remove("step-1")
    with pytest.raises(ztensor.ZTensorError) as unlimited:
        store.prune()
    hints = [str(caught.value.hint) for caught in (nowhere, absent, unlimited)]
    assert hints == [
        "Make one: Store(..., create=True).",
        "Store.list() tells what it has.",
        "Say keep_last=, keep_every= or keep_name=.",
    ]
    command = [sys.executable, "-m", "ztensor", "store", "remove", "step-1", "--store", str(store.location)]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 2 and "`ztensor store list` shows what it has" in told.stderr
