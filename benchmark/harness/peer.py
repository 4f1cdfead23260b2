"""What a peer can do, as the harness asks for it.

A peer is one class in one file of `peers/`. Its class attributes say what it takes part in and are read in the harness;
its library is imported in `__init__`, which only the worker process inside the peer's own environment calls.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from harness.environments import PROJECT, Environment


class Peer:
    environment: Environment = PROJECT
    #: format → the ways of loading it: "view" (backed by the map), "copy" (independent memory)
    reads: dict[str, tuple[str, ...]] = {}
    #: format → the ways of loading it that are measured in fresh processes: "copy" (NumPy), "torch copy"
    first_loads: dict[str, tuple[str, ...]] = {}
    #: formats it writes, for the write benchmark and for making the files that everybody reads
    writes: tuple[str, ...] = ()
    #: compression settings it offers when writing `.zt`
    compressions: tuple[str, ...] = ()
    #: efforts of its buffer codec
    efforts: tuple[str, ...] = ()
    #: efforts of its delta codec
    delta_efforts: tuple[str, ...] = ()
    #: it packs a `.safetensors` file into a smaller one, alone or against a base, and restores it
    archives: bool = False

    def version(self) -> str:
        raise NotImplementedError

    def load(self, path: Path, format: str, mode: str) -> dict:
        """All tensors by name, as NumPy arrays or torch tensors."""
        raise NotImplementedError

    def prepare(self, mode: str) -> None:
        """Import what a mode needs; not part of the measured time."""

    def save(self, tensors: dict, path: Path, format: str, compression: str = "raw") -> None:
        """Write NumPy arrays."""
        raise NotImplementedError

    def tensors_for_saving(self, arrays: dict) -> dict:
        """The arrays as this library wants them; not part of the measured time."""
        return arrays

    def open_one(self, path: Path, format: str, name: str) -> tuple[int, object]:
        """Open, list all names, read one tensor: how many names, and the tensor."""
        raise NotImplementedError

    def input_for_compressing(self, data: memoryview) -> memoryview | bytearray:
        """The bytes as this library wants them; not part of the measured time."""
        return data

    def compress(
        self, data: memoryview, dtype: str | None, shape: tuple[int, ...] | None, effort: str, threads: int
    ) -> bytes:
        raise NotImplementedError

    def decompress(self, blob: bytes, effort: str, threads: int) -> bytes | memoryview:
        raise NotImplementedError

    def decompress_into(self, blob: bytes, out: bytearray, effort: str, threads: int) -> None:
        """Decode into memory the caller owns; peers without such a call do not override it."""
        raise NotImplementedError

    def compress_delta(self, current: bytes, reference: bytes, dtype: str, effort: str, threads: int) -> bytes:
        raise NotImplementedError

    def decompress_delta(self, blob: bytes, reference: bytes, effort: str, threads: int) -> bytes | memoryview:
        raise NotImplementedError

    def archive(self, source: Path, target: Path) -> None:
        raise NotImplementedError

    def restore(self, source: Path, target: Path) -> None:
        raise NotImplementedError

    def archive_delta(self, source: Path, base: Path, target: Path) -> None:
        raise NotImplementedError

    def restore_delta(self, source: Path, base: Path, target: Path) -> None:
        raise NotImplementedError

    @classmethod
    def decodes_into(cls) -> bool:
        return cls.decompress_into is not Peer.decompress_into


def peer_class(name: str) -> type[Peer]:
    """The class in `peers/<name>.py`."""
    module = import_module(f"peers.{name}")
    found = [
        value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__
    ]
    return next(value for value in found if issubclass(value, Peer))


def peer_names() -> list[str]:
    directory = Path(__file__).resolve().parents[1] / "peers"
    return sorted(path.stem for path in directory.glob("*.py") if path.stem != "__init__")
