"""Batches: repeatable tasks on any executor, nothing twice and nothing lost."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ztensor
import ztensor.batch
import ztensor.numpy
from ztensor import Store
from ztensor.batch import Report, archive, archive_many, convert_many, ledger, name_of, verify_many


def files(folder: Path, count: int) -> list[str]:
    random = np.random.default_rng(1)
    for number in range(count):
        weight = random.standard_normal((16, 16)).astype(np.float32)
        ztensor.numpy.save_file({"w": weight}, folder / f"m-{number}.safetensors")
    return [str(folder / f"m-{number}.safetensors") for number in range(count)]


def test_one_file(tmp_path: Path) -> None:
    [path] = files(tmp_path, 1)
    Store(tmp_path / "store", create=True)
    report = archive(path, tmp_path / "store", "a/b")
    assert (
        report
        and report.status == "done"
        and report.result == "a/b"
        and report.original_bytes == Path(path).stat().st_size
    )
    assert pickle.loads(pickle.dumps(report)) == report
    again = archive(path, tmp_path / "store", "a/b")
    assert again.status == "already" and again
    by_url = archive(f"file://{path}", tmp_path / "store")
    assert by_url.status == "done" and by_url.result == name_of(f"file://{path}")
    store = Store(tmp_path / "store")
    store.get(by_url.result, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == Path(path).read_bytes()
    assert ledger(tmp_path / "store") == {path: "a/b", f"file://{path}": by_url.result}
    missing = archive(tmp_path / "missing.pt", tmp_path / "store")
    assert not missing and missing.kind == "not_found" and missing.attempts == 1 and "missing" in str(missing.error)


@pytest.mark.parametrize("make", [None, ThreadPoolExecutor, ProcessPoolExecutor], ids=["own", "threads", "processes"])
def test_many_files(tmp_path: Path, make: type[Executor] | None) -> None:
    paths = files(tmp_path, 7)
    store = tmp_path / "store"
    seen: list[tuple[int, int | None]] = []

    def watch(report: Report, done: int, total: int | None) -> None:
        seen.append((done, total))

    executor = make(2) if make is not None else None  # type: ignore[call-arg]
    listed = [*paths, paths[0], str(tmp_path / "missing")]
    # A batch that ends after three reports is gone on with by the next.
    begun = archive_many(paths, store, executor, in_flight=2)
    first = [next(begun) for _ in range(3)]
    begun.close()
    reports = list(archive_many(listed, store, executor, in_flight=3, progress=watch))
    if executor is not None:
        executor.shutdown()
    assert all(report.status == "done" for report in first)
    assert sorted(report.url for report in reports) == sorted([*paths, str(tmp_path / "missing")])
    assert [report.url for report in reports if not report] == [str(tmp_path / "missing")]
    assert {report.url for report in first} <= {report.url for report in reports if report.status == "already"}
    assert seen == [(number, 9) for number in range(1, 9)]
    assert sorted(ledger(store)) == sorted(paths) and Store(store).verify(decode=True) == []


def test_relative_paths_are_those_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path, 2)
    long = "m" * 61 + ".safetensors"
    (tmp_path / "m-1.safetensors").rename(tmp_path / long)
    urls = ["m-0.safetensors", long]
    with ProcessPoolExecutor(2, initializer=os.chdir, initargs=("/",)) as pool:
        # Workers begin with the first task, so that they are elsewhere in any case.
        monkeypatch.chdir(tmp_path)
        reports = list(archive_many(urls, "store", pool))
        assert sorted((report.url, report.status) for report in reports) == [(url, "done") for url in sorted(urls)]
        assert sorted(Store("store").keys()) == sorted(map(name_of, urls))
        assert {report.status for report in archive_many(urls, "store", pool)} == {"already"}
        assert all(convert_many(urls, "converted", pool))
        assert len(list((tmp_path / "converted").rglob("*.zt"))) == 2
        assert all(verify_many([*urls, f"store//{name_of(urls[0])}"], pool))


def test_converted_and_verified(tmp_path: Path) -> None:
    paths = files(tmp_path, 3)
    reports = list(convert_many(paths, tmp_path / "out", to="pt"))
    assert all(report.status == "done" and Path(report.result).suffix == ".pt" for report in reports)
    assert {report.status for report in convert_many(paths, tmp_path / "out", to="pt")} == {"already"}
    Path(paths[0]).write_bytes(Path(paths[0]).read_bytes()[:-5])
    checked = {report.url: report for report in verify_many(paths)}
    assert [bool(checked[path]) for path in paths] == [False, True, True] and checked[paths[0]].kind == "truncated"


def test_a_worker_that_dies(tmp_path: Path) -> None:
    """The files of a pool that broke are reported as failed, and the next run adds them."""
    paths = files(tmp_path, 6)
    with ProcessPoolExecutor(1) as pool:
        reports = archive_many(paths, tmp_path / "store", pool, in_flight=2)
        first = next(reports)
        for process in pool._processes.values():
            os.kill(process.pid, signal.SIGKILL)
        rest = list(reports)
    assert first and len(rest) == 5 and {report.kind for report in rest if not report} == {"worker_lost"}
    assert all(archive_many(paths, tmp_path / "store"))
    assert sorted(ledger(tmp_path / "store")) == sorted(paths)


@pytest.mark.parametrize(
    ("failures", "kind", "status", "attempts"),
    [
        (2, "io", "done", 3),
        (3, "io", "failed", 3),
        (1, "malformed", "failed", 1),
    ],
)
def test_what_may_pass_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, kind: str, status: str, attempts: int
) -> None:
    left = [failures]

    class Flaky(Store):
        def add(self, *arguments: Any, **options: Any) -> Any:
            if left[0]:
                left[0] -= 1
                raise ztensor.batch._native_error(kind, "not now")
            return super().add(*arguments, **options)

    monkeypatch.setattr(ztensor.batch, "Store", Flaky)
    monkeypatch.setattr(ztensor.batch, "_PAUSE", 0.001)
    [path] = files(tmp_path, 1)
    [report] = archive_many([path], tmp_path / "store", retries=2)
    assert (report.status, report.attempts) == (status, attempts)
    assert (report.kind, path in ledger(tmp_path / "store")) == (None if report else kind, bool(report))


def test_names() -> None:
    assert name_of("s3://bucket/a%20b/c.gguf") == "s3/bucket/a%20b/c.gguf"
    assert name_of("https://user:secret@host/m.pt?x=1", "run") != name_of("https://host/m.pt?x=2", "run")
    assert "secret" not in name_of("https://user:secret@host/m.pt")
    assert len(name_of("https://host/" + "x" * 500)) == 32
    assert name_of("/a/../b") == "b" and name_of("s3://b/x/../y") != name_of("s3://b/x/y")


def test_the_command(tmp_path: Path) -> None:
    paths = files(tmp_path, 2)
    (tmp_path / "urls.txt").write_text("# a list\n" + "\n".join(paths) + "\n\n")
    command = [
        sys.executable,
        "-m",
        "ztensor",
        "batch",
        "add",
        "--list",
        tmp_path / "urls.txt",
        "--store",
        tmp_path / "s",
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0 and result.stdout.count("done: ") == 2 and "2 of 2" in result.stderr
    assert subprocess.run(command, capture_output=True, text=True).stdout.count("already: ") == 2
    head = [*command[:3], "batch"]
    listed = ["--list", str(tmp_path / "urls.txt"), "--json"]
    converted = subprocess.run([*head, "convert", *listed, "-o", tmp_path / "out"], capture_output=True, text=True)
    made = [json.loads(line)["result"] for line in converted.stdout.splitlines()]
    assert converted.returncode == 0 and all(Path(path).suffix == ".zt" for path in made) and len(made) == 2
    assert subprocess.run([*head, "verify", *listed], capture_output=True).returncode == 0
    (tmp_path / "urls.txt").write_text(str(tmp_path / "missing"))
    result = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert result.returncode == 1 and '"kind": "not_found"' in result.stdout
