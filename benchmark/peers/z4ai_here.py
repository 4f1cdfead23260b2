"""Our own codec, archives and deltas: the package `z4ai` from the environment that runs the benchmark."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from harness.peer import Peer


class Z4aiHere(Peer):
    efforts = ("fast", "default", "max")
    delta_efforts = ("default",)
    archives = True

    def __init__(self) -> None:
        import z4ai

        self.z4ai = z4ai

    def version(self) -> str:
        return version("ztensor")

    def compress(
        self, data: memoryview, dtype: str | None, shape: tuple[int, ...] | None, effort: str, threads: int
    ) -> bytes:
        effort = None if effort == "default" else effort
        return self.z4ai.compress(data, dtype=dtype, shape=shape, effort=effort, threads=threads)

    def decompress(self, blob: bytes, effort: str, threads: int) -> bytes | memoryview:
        return self.z4ai.decompress(blob, threads=threads)

    def decompress_into(self, blob: bytes, out: bytearray, effort: str, threads: int) -> None:
        self.z4ai.decompress(blob, out=out, threads=threads)

    def compress_delta(self, current: bytes, reference: bytes, dtype: str, effort: str, threads: int) -> bytes:
        return self.z4ai.compress_delta(current, reference, dtype=dtype, threads=threads)

    def decompress_delta(self, blob: bytes, reference: bytes, effort: str, threads: int) -> bytes | memoryview:
        return self.z4ai.decompress_delta(blob, reference)

    def archive(self, source: Path, target: Path) -> None:
        from z4ai import safetensors

        safetensors.compress_file(source, target)

    def restore(self, source: Path, target: Path) -> None:
        from z4ai import safetensors

        safetensors.decompress_file(source, target)

    def archive_delta(self, source: Path, base: Path, target: Path) -> None:
        from z4ai import model_delta

        model_delta.compress_file(source, base, target)

    def restore_delta(self, source: Path, base: Path, target: Path) -> None:
        from z4ai import model_delta

        model_delta.decompress_file(source, base, target)
