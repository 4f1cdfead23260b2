"""Batches on Ray: the tasks of :mod:`ztensor.batch` on the workers of a cluster, with reports as they come.

>>> from ztensor.ray import archive_many
>>> for report in archive_many(urls, "s3://bucket/models", num_cpus=2):
...     print(report.url, report.status)

A worker that is lost costs nothing but its time: Ray starts its tasks elsewhere, and the store holds what was finished.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import Any, Literal

import ray  # type: ignore[import-not-found,unused-ignore]

from . import batch
from ._types import Effort, StorageOptions
from .batch import IN_FLIGHT, Report, Watch

__all__ = ["RayExecutor", "archive_many", "convert_many", "verify_many"]


class RayExecutor(Executor):
    """Ray as an executor: each call is a task of a cluster.

    :param num_cpus: processors that a task takes, which bounds how many run on a machine.
    :param memory: bytes that a task takes, likewise.
    :param max_retries: how often a task is started again whose worker was lost.
    """

    def __init__(self, *, num_cpus: float = 1, memory: int | None = None, max_retries: int = 3) -> None:
        if not ray.is_initialized():
            ray.init()
        self._options: dict[str, Any] = {"num_cpus": num_cpus, "max_retries": max_retries}
        if memory is not None:
            self._options["memory"] = memory
        self._remote: dict[Callable[..., Any], Any] = {}

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        """Starts a task. The future is told once the task is finished, or has failed for good."""
        if function not in self._remote:
            self._remote[function] = ray.remote(function).options(**self._options)
        reference = self._remote[function].remote(*arguments, **options)
        future: Future[Any] = reference.future()
        return future


def archive_many(
    urls: Iterable[str | os.PathLike[str]],
    store: str | os.PathLike[str],
    *,
    num_cpus: float = 1,
    memory: int | None = None,
    max_retries: int = 3,
    create: bool = True,
    prefix: str = "",
    base: str | None = "auto",
    effort: Effort = None,
    retries: int = 3,
    in_flight: int = IN_FLIGHT,
    progress: Watch | None = None,
    storage_options: StorageOptions = None,
) -> Iterator[Report]:
    """Adds many files to a store, as :func:`ztensor.batch.archive_many` does, each in a task of Ray's.

    The store is one that every worker reaches: a URL, or a directory on a file system that they share.

    :param num_cpus: processors that a task takes.
    :param memory: bytes that a task takes.
    :param max_retries: how often a task is started again whose worker was lost.
    """
    return batch.archive_many(
        urls,
        store,
        RayExecutor(num_cpus=num_cpus, memory=memory, max_retries=max_retries),
        create=create,
        prefix=prefix,
        base=base,
        effort=effort,
        retries=retries,
        in_flight=in_flight,
        progress=progress,
        storage_options=storage_options,
    )


def convert_many(
    urls: Iterable[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    *,
    to: Literal["zt", "safetensors", "pt"] = "zt",
    num_cpus: float = 1,
    memory: int | None = None,
    max_retries: int = 3,
    **options: Any,
) -> Iterator[Report]:
    """Converts many files into a folder that every worker reaches, with the options of :func:`ztensor.batch.convert_many`."""
    executor = RayExecutor(num_cpus=num_cpus, memory=memory, max_retries=max_retries)
    return batch.convert_many(urls, folder, executor, to=to, **options)


def verify_many(
    urls: Iterable[str | os.PathLike[str]],
    *,
    num_cpus: float = 1,
    memory: int | None = None,
    max_retries: int = 3,
    **options: Any,
) -> Iterator[Report]:
    """Checks many files, with the options of :func:`ztensor.batch.verify_many`."""
    executor = RayExecutor(num_cpus=num_cpus, memory=memory, max_retries=max_retries)
    return batch.verify_many(urls, executor, **options)


def __dir__() -> list[str]:
    return __all__
