"""``torch.distributed.checkpoint`` on a store: FSDP2 and plain DTensors, several ranks, other numbers of ranks, faults."""

from __future__ import annotations

import os
import pickle
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jobs
import pytest
import ranks
import torch
from safetensors import safe_open
from torch.distributed.checkpoint import DefaultSavePlanner
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType

import ztensor
from ztensor import Store
from ztensor.dcp import Reader, Writer


def same(one: Any, other: Any) -> None:
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    else:
        assert one == other


def worked(results: list[Any]) -> Any:
    for result in results:
        if isinstance(result, BaseException):
            raise result
        assert result is not None
    return results[0]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, dict[int, Any]]:
    """Three steps that four ranks saved, the state of the last, and what one, two and three ranks loaded of it."""
    store = tmp_path_factory.mktemp("dcp") / "store"
    saved, loaded = worked(ranks.run(4, jobs.save_and_load_on_fewer, str(store), "run", [1, 2, 3]))
    return store, saved, loaded


def test_other_numbers_of_ranks_load_what_four_saved(run: tuple[Path, Any, dict[int, Any]]) -> None:
    _, saved, loaded = run
    assert list(loaded) == [1, 2, 3]
    for state in loaded.values():
        same(state, saved)


def test_a_step_is_a_checkpoint_like_any_other(run: tuple[Path, Any, dict[int, Any]], tmp_path: Path) -> None:
    path, state, _ = run
    store = Store(path)
    assert store.keys() == ["run/step-1", "run/step-2", "run/step-3"]
    info = store.info("run/step-3")
    assert [file["path"] for file in info["files"]] == [
        "boxes.zt",
        "planner.json",
        *(f"rank-0000{rank}.safetensors" for rank in range(4)),
    ]
    assert info["parent"] == "run/step-2"
    tensors = store.load("run/step-3", framework="pt")
    assert torch.equal(tensors["columns"], state["columns"])
    assert torch.equal(tensors["everywhere"], state["everywhere"])
    assert torch.equal(tensors["few"], state["few"])
    for name, tensor in state["model"].items():
        assert torch.equal(tensors[f"model.{name}"], tensor)
    reader = ztensor.Reader(f"{path}//run/step-3")
    assert reader.file_metadata["step"] == 3
    assert reader.file_metadata["note"] == "step 3"
    assert (reader.read_slice("columns", (slice(2, 5), 3)) == state["columns"][2:5, 3].numpy()).all()

    # What is restored to a folder opens the same way, and changes between steps are shown.
    store.get("run/step-3", tmp_path / "folder")
    restored = ztensor.Reader(tmp_path / "folder")
    assert torch.equal(restored.read_torch("columns"), state["columns"])
    command = [sys.executable, "-m", "ztensor", "diff", f"{path}//run/step-2", f"{path}//run/step-3"]
    shown = subprocess.run(command, capture_output=True, text=True)
    assert "columns" in shown.stdout
    assert store.verify(decode=True) == []

    # One process without a group loads it as well, from the store or from the folder.
    for reader in (Reader(path, "run/step-3"), Reader(tmp_path / "folder"), Reader(f"{path}//run/step-3")):
        back = {"columns": torch.zeros(10, 6), "step": 0, "object": None}
        torch.distributed.checkpoint.load(back, storage_reader=reader)
        same(back, {key: state[key] for key in back})


def test_deltas_and_duplicates(run: tuple[Path, Any, dict[int, Any]]) -> None:
    store = Store(run[0])
    first, last = store.info("run/step-1"), store.info("run/step-3")
    assert first["parent"] is None
    assert last["depth"] >= 1
    # What every rank has is stored once.
    files = [file["path"] for file in last["files"] if file["path"].startswith("rank-")]
    holders = [file for file in files if "everywhere" in store.open("run/step-3", file)]
    assert len(holders) == 1


def test_files_of_other_kinds_load_too(tmp_path: Path) -> None:
    weights = {"a": torch.randn(5, 4), "b": torch.randn(3).to(torch.bfloat16)}
    ztensor.torch.save_file(weights, tmp_path / "model.safetensors")
    back = {"a": torch.zeros(5, 4), "b": torch.zeros(3)}
    torch.distributed.checkpoint.load(back, storage_reader=Reader(tmp_path / "model.safetensors"))
    assert torch.equal(back["a"], weights["a"])
    assert torch.equal(back["b"], weights["b"].float())


def test_writers_and_readers_are_places_only(tmp_path: Path) -> None:
    writer = Writer(Store(tmp_path / "store", create=True), "a", storage_options={"endpoint": "x"})
    assert len(pickle.dumps(writer)) < 2000
    assert pickle.loads(pickle.dumps(Reader(tmp_path, "a")))._path == f"{tmp_path}//a"
    with pytest.raises(CheckpointException, match="needs a name"):
        torch.distributed.checkpoint.save({"a": 1}, storage_writer=Writer(tmp_path / "store"))


def check(path: Path, name: str, state: dict[str, Any]) -> None:
    """A step is whole, and one process loads it."""
    tensors = Store(path).load(name, framework="pt")
    for key, tensor in state["model"].items():
        assert torch.equal(tensors[f"model.{key}"], tensor)
    back = {"columns": torch.zeros(10, 6), "few": torch.zeros(3, dtype=torch.int64), "step": 0, "object": None}
    torch.distributed.checkpoint.load(back, storage_reader=Reader(path, name))
    same(back, {key: state[key] for key in back})


def test_a_process_of_its_own_saves(tmp_path: Path) -> None:
    store = tmp_path / "store"
    check(store, "a", worked(ranks.run(2, jobs.save_in_a_process, str(store), "a")))


@pytest.mark.parametrize(
    ("moment", "victim", "background", "there"),
    [
        ("before", 1, None, False),
        ("written", 1, "thread", False),
        ("written", 1, "process", False),
        ("finish", 0, None, False),
        ("after", 0, None, True),
    ],
)
def test_a_rank_that_dies_leaves_a_step_whole_or_absent(
    run: tuple[Path, Any, dict[int, Any]], moment: str, victim: int, background: str | None, there: bool
) -> None:
    path, state, _ = run
    name = f"run/{moment}"
    results = ranks.run(2, jobs.save_and_die, str(path), name, moment, victim, background)
    # The rank outlives the process that saves for it, and is told.
    assert isinstance(results[victim], BaseException) if background == "process" else results[victim] is None
    assert isinstance(results[1 - victim], BaseException)
    store = Store(path)
    assert (name in store) == there
    check(path, "run/step-3", state)
    if there:
        assert ztensor.Reader(f"{path}//{name}").file_metadata["step"] == 2
        store.remove(name)
    assert store.verify(decode=True) == []


@pytest.mark.parametrize("seen", ["packs/*/*.zt", "checkpoints/run/seen/*.m"])
def test_a_coordinator_that_dies_in_the_commit_leaves_a_step_whole_or_absent(
    run: tuple[Path, Any, dict[int, Any]], seen: str
) -> None:
    path, state, _ = run
    results = ranks.run(2, jobs.save_until_seen, str(path), "run/seen", seen)
    assert results[0] is None
    assert isinstance(results[1], BaseException)
    store = Store(path)
    if "run/seen" in store:
        assert ztensor.Reader(f"{path}//run/seen").file_metadata["step"] == 2
        store.remove("run/seen")
    else:
        # What was uploaded is in nobody's way.
        worked(ranks.run(2, jobs.save, str(path), "run/again", 0, 2))
        store.remove("run/again")
    check(path, "run/step-3", state)
    assert store.verify(decode=True) == []


def test_of_two_jobs_with_one_name_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "store"
    Store(path, create=True)
    with ThreadPoolExecutor() as pool:
        jobs_at_once = [pool.submit(ranks.run, 1, jobs.save, str(path), "a", seed, 1) for seed in (1, 2)]
        outcomes = [job.result()[0] for job in jobs_at_once]
    won = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    lost = [str(outcome) for outcome in outcomes if isinstance(outcome, BaseException)]
    assert (len(won), len(lost)) == (1, 1)
    assert '"a"' in lost[0]
    assert "already" in lost[0] or "at the same time" in lost[0]
    check(path, "a", won[0])


def test_a_model_folder_comes_out_of_a_run(run: tuple[Path, Any, dict[int, Any]], tmp_path: Path) -> None:
    path, state, _ = run
    output = tmp_path / "folder"
    command = [sys.executable, "-m", "ztensor", "store", "get", "run/step-3", "--store", path, "-o", output]
    subprocess.run([*command, "--as", "safetensors", "--prefix", "model."], check=True, capture_output=True)
    assert [file.name for file in output.iterdir()] == ["model.safetensors"]
    with safe_open(output / "model.safetensors", "pt") as model:
        assert model.metadata() == {"format": "pt"}
        assert set(model.keys()) == set(state["model"])
        for name, tensor in state["model"].items():
            assert torch.equal(model.get_tensor(name), tensor)
    again = subprocess.run([*command, "--as", "safetensors", "--prefix", "nothing."], capture_output=True, text=True)
    assert again.returncode != 0
    assert "nothing." in again.stderr


def test_a_folder_for_transformers_comes_out_of_a_run(tmp_path: Path) -> None:
    """Two ranks train a model of transformers; one command makes a folder that transformers loads."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    folder, store, output = tmp_path / "model", tmp_path / "store", tmp_path / "out"
    words = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    LlamaConfig(vocab_size=100, **words).save_pretrained(folder)
    tokenizer = os.urandom(1 << 20)
    (folder / "tokenizer.bpe").write_bytes(tokenizer)
    # The weights that training began with are not those of the step.
    (folder / "model.safetensors").write_bytes(b"old")
    (folder / "model.safetensors.index.json").write_text("{}")
    weights, stored = worked(ranks.run(2, jobs.save_a_model, str(store), ["run/step-1", "run/step-2"], str(folder)))
    # Files that stay are stored once.
    assert stored[0] > len(tokenizer) > stored[1]
    command = [sys.executable, "-m", "ztensor", "store", "get", "run/step-2", "--store", store, "-o", output]
    subprocess.run([*command, "--as", "safetensors", "--prefix", "model."], check=True, capture_output=True)
    names = {file.name for file in output.iterdir()}
    assert names == {"config.json", "model.safetensors", "tokenizer.bpe"} | {
        file.name for file in folder.glob("generation_config.json")
    }
    assert (output / "tokenizer.bpe").read_bytes() == tokenizer
    model = AutoModelForCausalLM.from_pretrained(output)
    same(dict(model.state_dict()), weights)


def test_files_beside_the_tensors_are_checked_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "boxes.zt").write_bytes(b"mine")
    (tmp_path / "rank-00000.json").write_text("{}")
    for files, part in [
        (tmp_path / "nowhere", "no folder"),
        (tmp_path, "rank-00000.json"),
        ([tmp_path / "boxes.zt"], "boxes.zt"),
        ([tmp_path / "rank-00000.json"] * 2, "twice"),
        ([tmp_path / "nothing"], "no file"),
    ]:
        with pytest.raises(CheckpointException, match=part):
            writer = Writer(tmp_path / "store", "a", files=files)
            torch.distributed.checkpoint.save({"a": 1}, storage_writer=writer)
    with pytest.raises(CheckpointException, match='no checkpoint "gone"'):
        torch.distributed.checkpoint.save({"a": 1}, storage_writer=Writer(tmp_path / "store", "a", base="gone"))
    assert Store(tmp_path / "store").keys() == [] and Store(tmp_path / "store").stats()["packs"] == 0


def test_the_base_is_the_step_that_was_saved_last(tmp_path: Path) -> None:
    store = tmp_path / "store"
    state = {"a": torch.randn(300, 40)}
    assert Store(store, create=True).last() is None
    for name in ("run/step-9", "run/step-10", "other/step-11", "run/step-3"):
        torch.distributed.checkpoint.save(state, storage_writer=Writer(store), checkpoint_id=name)
        state["a"] += 1e-5 * torch.randn(300, 40)
    opened = Store(store)
    assert opened.last("run") == "run/step-3" and opened.last("nothing") is None
    assert [opened.info(name)["parent"] for name in ("run/step-10", "other/step-11", "run/step-3")] == [
        "run/step-9",
        None,
        "run/step-10",
    ]
    opened.remove("run/step-3")
    assert opened.last("run") == "run/step-10"
    # A base that is removed between the plan and the write is done without.
    writer = Writer(store, "run/step-4")
    plan = writer.prepare_global_plan([])
    assert plan == [] and writer._found == "run/step-10"
    opened.remove("run/step-10")
    part, *_ = opened.add_part("rank-00000", state, "run/step-4", base="run/step-10")
    opened.commit_parts("run/step-4", [part], [("note.txt", b"note")], base="run/step-10")
    assert torch.equal(opened.load("run/step-4", framework="pt")["a"], state["a"])


def coordinator_calls(store: Path, world: int) -> int:
    """Calls of functions that ``finish`` makes for as many ranks, each with a shard of each of 60 tensors."""
    properties = TensorProperties(dtype=torch.float32)
    size = torch.Size([world, 4])
    chunks = [ChunkStorageMetadata(torch.Size([rank, 0]), torch.Size([1, 4])) for rank in range(world)]
    names = [f"layer.{number}" for number in range(60)]

    def item(name: str, rank: int) -> WriteItem:
        index = MetadataIndex(name, chunks[rank].offsets, rank)
        return WriteItem(index, WriteItemType.SHARD, tensor_data=TensorWriteData(chunks[rank], properties, size))

    class Planner(DefaultSavePlanner):
        def resolve_data(self, write_item: WriteItem) -> torch.Tensor:
            return torch.full((1, 4), float(hash(write_item.index) % 1000003))

    writer = Writer(store, f"ranks-{world}", base=None)
    writer.set_up_storage_writer(True)
    plans = writer.prepare_global_plan([SavePlan([item(name, rank) for name in names]) for rank in range(world)])
    results = [writer.write_data(plan, Planner()).value() for plan in plans]
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    tensors = {name: TensorStorageMetadata(properties, size, chunks) for name in names}
    sys.setprofile(count)
    try:
        writer.finish(Metadata(tensors, planner_data={}), results)
    finally:
        sys.setprofile(None)
    assert len(Store(store).load(f"ranks-{world}")) == len(names)
    return calls


def test_the_coordinators_work_is_linear_in_the_shards(tmp_path: Path) -> None:
    four, eight, sixteen = (coordinator_calls(tmp_path / "store", world) for world in (4, 8, 16))
    assert sixteen - eight <= 2.1 * (eight - four)
    # A handful for each shard more: of a training job of 256 ranks there are 100,000.
    assert (sixteen - eight) / (8 * 60) < 6


def test_the_page_for_users_runs(tmp_path: Path) -> None:
    """Its Python as a script of two ranks, and its commands on what that leaves."""
    page = (Path(__file__).parents[3] / "docs" / "distributed.md").read_text(encoding="utf-8")
    script = "".join(re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    (tmp_path / "train.py").write_text(script + "\ntorch.distributed.destroy_process_group()\n")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    paths = {**os.environ, "PYTHONPATH": str(Path(ztensor.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(launch, cwd=tmp_path, env=paths, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert Store(tmp_path / "models").keys() == ["run-7/step-10", "run-7/step-20", "run-7/step-21"]
    [commands] = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    for command in commands.splitlines():
        words = shlex.split(command, comments=True)
        assert words[0] == "ztensor"
        ran = subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, env=paths, capture_output=True, text=True)
        # As of other tools that compare, 1 says that there are differences.
        assert ran.returncode == (1 if words[1] == "diff" else 0), ran.stderr
    with safe_open(tmp_path / "folder" / "model.safetensors", "pt") as model:
        assert set(model.keys()) == {"0.weight", "0.bias", "2.weight", "2.bias"}
