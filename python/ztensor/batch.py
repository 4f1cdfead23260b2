"""Many files at once, on any executor: archived into a store, converted, or verified. Each task is repeatable, and one whose result is
there already does nothing, so that a batch that was interrupted is simply run again.

>>> from ztensor.batch import archive_many
>>> for report in archive_many(["s3://bucket/a.safetensors", "hf://owner/name/model.safetensors"], "models"):
...     print(report.url, report.status)

The store's commit rule is all the coordination there is: a checkpoint appears whole or not at all, and of two workers that add the
same, one wins. Its metadata say where it came from; :func:`ledger` lists them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from . import _native
from ._errors import ZTensorError, from_core, invalid
from ._store import Store
from ._types import Effort, StorageOptions

__all__ = [
    "Report",
    "archive",
    "archive_many",
    "convert",
    "convert_many",
    "ledger",
    "name_of",
    "run",
    "verify",
    "verify_many",
]

#: What became of a task.
Status: TypeAlias = Literal["done", "already", "failed"]

#: Called with each report, and with how many tasks are finished and how many there are; ``None`` for those of a generator.
Watch: TypeAlias = Callable[["Report", int, int | None], None]

#: Under which key the metadata of a checkpoint say where it came from.
URL_KEY = "batch.url"

#: Tasks that are handed to an executor before the first of them is finished: a registry of a million files is no million futures.
IN_FLIGHT = 64

#: Failures that another attempt may not have: of the network, of the disk, of other writers.
_PASSING = frozenset({"io", "conflict", "outcome_unknown", "truncated", "no_space"})

#: Seconds before the second attempt; each further one waits twice as long.
_PAUSE = 0.5


@dataclass(frozen=True)
class Report:
    """What came of one file. It can be pickled."""

    #: Where the file is.
    url: str
    #: ``"done"``; ``"already"`` where the result was there before; ``"failed"``.
    status: Status
    #: The checkpoint, or the path of what was made.
    result: str
    #: Bytes of the file.
    original_bytes: int = 0
    #: Bytes that were stored or written.
    stored_bytes: int = 0
    seconds: float = 0.0
    #: How often it was tried.
    attempts: int = 1
    #: Why it failed: the kind of the error, and its message.
    kind: str | None = None
    error: str | None = None

    def __bool__(self) -> bool:
        """Whether the result is there."""
        return self.status != "failed"


def name_of(url: str | os.PathLike[str], prefix: str = "") -> str:
    """The name that a file has in a store unless another is given: its scheme, host and path. The same URL always gives the same."""
    text = os.fspath(url)
    parts = urlsplit(text)
    if not parts.scheme or len(parts.scheme) == 1:
        # Not resolved: a link has a name of its own.
        text = os.path.abspath(text)  # noqa: PTH100
        segments = [*Path(text).parts[1:]]
    else:
        segments = [parts.scheme, parts.netloc.rpartition("@")[2], *parts.path.split("/")]
        if parts.query:
            segments[-1] += f"-{sha256(parts.query.encode()).hexdigest()[:16]}"
    kept = [segment for segment in segments if segment]
    name = "/".join([*filter(None, prefix.split("/")), *kept])
    longest = max((len(segment.encode()) for segment in kept), default=0)
    odd = any(segment in (".", "..") or not segment.isprintable() for segment in kept)
    # Escapes take up to three times the room.
    if odd or longest > 60 or len(name.encode()) > 200:
        digest = sha256(text.encode()).hexdigest()[:32]
        name = "/".join([*filter(None, prefix.split("/")), digest])
    return name


def archive(
    url: str | os.PathLike[str],
    store: str | os.PathLike[str],
    name: str | None = None,
    *,
    prefix: str = "",
    base: str | None = "auto",
    effort: Effort = None,
    retries: int = 3,
    storage_options: StorageOptions = None,
) -> Report:
    """Adds one file, by path or URL, to a store. Where the checkpoint is there already, nothing is done. Failures are told in the
    report, never raised.

    :param store: the store's directory or URL; a worker of any process opens it.
    :param name: the checkpoint's name; ``None`` takes :func:`name_of` the URL.
    :param prefix: what stands before such a name.
    :param retries: how often a failure is tried again that may pass, such as one of the network.
    :param storage_options: endpoints and keys, for the file and for the store.
    """
    text = os.fspath(url)
    wanted = name or name_of(text, prefix)
    place = os.fspath(store)

    def task() -> Report:
        opened = Store(place, storage_options=storage_options)
        if wanted in opened:
            return Report(text, "already", wanted)
        with tempfile.TemporaryDirectory(prefix="ztensor-batch-") as folder:
            path = Path(text)
            if _is_url(text):
                path = Path(folder) / (PurePosixPath(unquote(urlsplit(text).path)).name or "model")
                _native.fetch(text, path, storage_options=storage_options)
            elif not path.exists():
                raise FileNotFoundError(f'no such file: "{text}"')
            metadata = {URL_KEY: text}
            try:
                report = opened.add(path, wanted, base=base, metadata=metadata, effort=effort)
            except ZTensorError:
                # Another worker was faster.
                if wanted in Store(place, storage_options=storage_options):
                    return Report(text, "already", wanted)
                raise
        return Report(text, "done", wanted, report["original_bytes"], report["stored_bytes"])

    return _attempts(task, text, wanted, retries)


def convert(
    url: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    to: Literal["zt", "safetensors", "pt"] = "zt",
    *,
    options: Iterable[str] = (),
    retries: int = 3,
    storage_options: StorageOptions = None,
) -> Report:
    """Converts one file, by path or URL, into a folder, where it has the name that :func:`name_of` gives it. Where the result is there
    already, nothing is done.

    :param options: further options of ``ztensor convert``, such as ``["--codec", "z4ai"]``.
    """
    text = os.fspath(url)
    output = Path(folder) / f"{name_of(text)}.{to}"

    def task() -> Report:
        # A file appears whole or not at all.
        if output.exists():
            return Report(text, "already", str(output))
        output.parent.mkdir(parents=True, exist_ok=True)
        [made] = _command("convert", text, "-o", str(output), "--force", *options, storage_options=storage_options)
        return Report(text, "done", str(output), made["bytes"], made["output_bytes"])

    return _attempts(task, text, str(output), retries)


def verify(url: str | os.PathLike[str], *, retries: int = 3, storage_options: StorageOptions = None) -> Report:
    """Checks every checksum of one file, by path or URL, and decodes every tensor. A checkpoint of a store is a path as well:
    ``store//name``.
    """
    text = os.fspath(url)

    def task() -> Report:
        _command("verify", text, storage_options=storage_options)
        return Report(text, "done", text, _native.file_length(text, storage_options=storage_options))

    return _attempts(task, text, text, retries)


def archive_many(
    urls: Iterable[str | os.PathLike[str]],
    store: str | os.PathLike[str],
    executor: Executor | None = None,
    *,
    create: bool = True,
    prefix: str = "",
    base: str | None = "auto",
    effort: Effort = None,
    retries: int = 3,
    in_flight: int = IN_FLIGHT,
    progress: Watch | None = None,
    storage_options: StorageOptions = None,
) -> Iterator[Report]:
    """Adds many files to a store, in any order; reports come as the files are done. What the store holds already is not looked at
    again, so that an interrupted batch goes on where it ended.

    :param executor: any ``concurrent.futures.Executor``: threads, processes, or Dask's ``Client.get_executor()``; ``None`` takes
        threads of this process.
    :param create: make the store if there is none.
    :param in_flight: tasks that are handed to the executor at a time.
    :param progress: called with each report, and with how many are done and how many there are.
    """
    place = _anywhere(store)
    there = set(Store(place, create=create, storage_options=storage_options).keys(prefix))
    options = {
        "prefix": prefix,
        "base": base,
        "effort": effort,
        "retries": retries,
        "storage_options": storage_options,
    }
    return run(
        archive,
        urls,
        (place,),
        options,
        executor,
        known=lambda url: Report(url, "already", name_of(url, prefix)) if name_of(url, prefix) in there else None,
        in_flight=in_flight,
        progress=progress,
    )


def convert_many(
    urls: Iterable[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    executor: Executor | None = None,
    *,
    to: Literal["zt", "safetensors", "pt"] = "zt",
    options: Iterable[str] = (),
    retries: int = 3,
    in_flight: int = IN_FLIGHT,
    progress: Watch | None = None,
    storage_options: StorageOptions = None,
) -> Iterator[Report]:
    """Converts many files into a folder, as :func:`convert` does one, and reports as :func:`archive_many` does."""
    words = {"to": to, "options": tuple(options), "retries": retries, "storage_options": storage_options}
    return run(convert, urls, (_anywhere(folder),), words, executor, in_flight=in_flight, progress=progress)


def verify_many(
    urls: Iterable[str | os.PathLike[str]],
    executor: Executor | None = None,
    *,
    retries: int = 3,
    in_flight: int = IN_FLIGHT,
    progress: Watch | None = None,
    storage_options: StorageOptions = None,
) -> Iterator[Report]:
    """Checks many files, as :func:`verify` does one, and reports as :func:`archive_many` does."""
    words = {"retries": retries, "storage_options": storage_options}
    return run(verify, urls, (), words, executor, in_flight=in_flight, progress=progress)


def ledger(
    store: str | os.PathLike[str], prefix: str = "", *, storage_options: StorageOptions = None
) -> dict[str, str]:
    """The files that batches have added to a store: checkpoints by the URLs that they came from. An entry is a part of its checkpoint,
    so that neither is there without the other.
    """
    listed = Store(store, storage_options=storage_options).list(prefix)
    return {item["metadata"][URL_KEY]: item["name"] for item in listed if URL_KEY in item["metadata"]}


def run(
    task: Callable[..., Report],
    urls: Iterable[str | os.PathLike[str]],
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    executor: Executor | None = None,
    *,
    known: Callable[[str], Report | None] = lambda url: None,
    in_flight: int = IN_FLIGHT,
    progress: Watch | None = None,
) -> Iterator[Report]:
    """Runs a task for each URL and gives the reports as they come; each URL once, however often it is listed.

    :param known: the report of a URL whose result is known to be there.
    """
    if in_flight < 1:
        raise invalid("in_flight must be at least 1")
    total = len(urls) if isinstance(urls, list | tuple | set | frozenset | dict) else None
    own = ThreadPoolExecutor(min(4, os.cpu_count() or 1)) if executor is None else None
    waiting: dict[Future[Report], str] = {}
    seen: set[str] = set()
    finished = 0

    def told(report: Report) -> Report:
        nonlocal finished
        finished += 1
        if progress is not None:
            progress(report, finished, total)
        return report

    def some() -> Iterator[Report]:
        done, _ = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            yield told(_outcome(future, waiting.pop(future)))

    try:
        for item in urls:
            url = os.fspath(item)
            if url in seen:
                continue
            seen.add(url)
            report = known(url)
            if report is not None:
                yield told(report)
                continue
            while len(waiting) >= in_flight:
                yield from some()
            submit = (own or executor).submit  # type: ignore[union-attr]
            try:
                waiting[submit(task, _anywhere(url), *arguments, **options)] = url
            except BrokenExecutor as error:
                yield told(_lost(url, error))
        while waiting:
            yield from some()
    finally:
        for future in waiting:
            future.cancel()
        if own is not None:
            own.shutdown(wait=True, cancel_futures=True)


def _outcome(future: Future[Report], url: str) -> Report:
    """The report of a task under the URL that it was asked for, also where its worker is gone."""
    try:
        return replace(future.result(), url=url)
    except Exception as error:  # Engines have errors of their own for workers that died.
        return _lost(url, error)


def _lost(url: str, error: Exception) -> Report:
    return Report(url, "failed", "", kind="worker_lost", error=f"{type(error).__name__}: {error}")


def _attempts(task: Callable[[], Report], url: str, result: str, retries: int) -> Report:
    """Runs a task until it succeeds, or fails for a reason that stays, or has failed too often."""
    begin, attempt = time.monotonic(), 1
    while True:
        try:
            return replace(task(), seconds=time.monotonic() - begin, attempts=attempt)
        except Exception as error:
            kind = getattr(error, "kind", None) or ("not_found" if isinstance(error, FileNotFoundError) else "io")
            if attempt > retries or kind not in _PASSING:
                seconds = time.monotonic() - begin
                return Report(url, "failed", result, 0, 0, seconds, attempt, kind, str(error))
        time.sleep(_PAUSE * 2 ** (attempt - 1))
        attempt += 1


def _anywhere(path: str | os.PathLike[str]) -> str:
    """A path as a worker finds it whose working directory is another. Nothing else about it changes: `//` is a store's."""
    text = os.fspath(path)
    return text if _is_url(text) else os.path.join(os.getcwd(), text)  # noqa: PTH109, PTH118


def _is_url(text: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text) is not None


def _command(*arguments: str, storage_options: StorageOptions = None) -> Any:
    """What a command of ``ztensor`` gives as JSON. It is a process of its own: one that is killed takes no worker with it."""
    environment = {**os.environ, **_variables(storage_options)}
    command = [sys.executable, "-m", "ztensor", *arguments, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    try:
        envelope = json.loads(result.stdout)
    except ValueError:
        raise OSError(f"ztensor {arguments[0]} ended with {result.returncode}: {result.stderr.strip()}") from None
    if "error" in envelope:
        error = envelope["error"]
        raise _native_error(error["kind"], error["message"])
    results = envelope["result"]
    for item in results:
        if "error" in item:
            raise _native_error(item["error"]["kind"], item["error"]["message"])
    if result.returncode != 0:
        raise _native_error("malformed", json.dumps(results))
    return results


def _native_error(kind: str, message: str) -> ZTensorError:
    return from_core(kind, message, None, None, None, None)


#: The variables that say what options say, for commands.
_VARIABLES = {
    "endpoint_url": "AWS_ENDPOINT_URL",
    "endpoint": "AWS_ENDPOINT_URL",
    "key": "AWS_ACCESS_KEY_ID",
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "secret": "AWS_SECRET_ACCESS_KEY",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "region": "AWS_REGION",
    "allow_http": "AWS_ALLOW_HTTP",
    "cache": "ZTENSOR_CACHE",
    "cache_size": "ZTENSOR_CACHE_SIZE",
    "whole": "ZTENSOR_WHOLE",
}


def _variables(options: StorageOptions) -> dict[str, str]:
    unknown = [name for name in options or {} if name not in _VARIABLES]
    if unknown:
        raise invalid(f"convert and verify take no storage option {unknown[0]!r}; set its variable in the environment")
    return {
        _VARIABLES[name]: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (options or {}).items()
    }


def __dir__() -> list[str]:
    return __all__
