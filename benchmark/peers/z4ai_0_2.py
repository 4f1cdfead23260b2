"""The package `z4ai` 0.2.0 with brotli for its `max` tier.

Its chunked path is at its best when it was installed where the headers of libzstd are; the version says whether it was.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from harness.environments import Environment
from harness.peer import Peer


class Z4ai02(Peer):
    environment = Environment("z4ai-0.2", ("z4ai==0.2.0", "brotli", "numpy"))
    efforts = ("chunked", "default", "max")
    delta_efforts = ("default",)
    archives = True

    def __init__(self) -> None:
        import z4ai
        import z4ai.chunked
        import z4ai.model_delta
        import z4ai.safetensors

        self.z4ai = z4ai

    def version(self) -> str:
        native = "native" if self.z4ai.chunked._native is not None else "no zstd headers, so pure Python"
        return f"{version('z4ai')} (chunked path: {native})"

    def compress(
        self, data: memoryview, dtype: str | None, shape: tuple[int, ...] | None, effort: str, threads: int
    ) -> bytes:
        if effort == "chunked":
            return self.z4ai.chunked.compress(data, dtype=dtype, threads=threads)
        return self.z4ai.compress(data, dtype=dtype, effort=None if effort == "default" else effort, threads=threads)

    def decompress(self, blob: bytes, effort: str, threads: int) -> bytes | memoryview:
        if effort == "chunked":
            return self.z4ai.chunked.decompress(blob, threads=threads)
        return self.z4ai.decompress(blob)

    def decompress_into(self, blob: bytes, out: bytearray, effort: str, threads: int) -> None:
        if effort == "chunked":
            out[:] = self.z4ai.chunked.decompress(blob, threads=threads)
        else:
            self.z4ai.decompress(blob, out=out)

    def compress_delta(self, current: bytes, reference: bytes, dtype: str, effort: str, threads: int) -> bytes:
        return self.z4ai.compress_delta(current, reference, dtype=dtype, threads=threads)

    def decompress_delta(self, blob: bytes, reference: bytes, effort: str, threads: int) -> bytes | memoryview:
        return self.z4ai.decompress_delta(blob, reference)

    def archive(self, source: Path, target: Path) -> None:
        self.z4ai.safetensors.compress_file(str(source), str(target))

    def restore(self, source: Path, target: Path) -> None:
        self.z4ai.safetensors.decompress_file(str(source), str(target))

    def archive_delta(self, source: Path, base: Path, target: Path) -> None:
        self.z4ai.model_delta.compress_file(str(source), str(base), str(target))

    def restore_delta(self, source: Path, base: Path, target: Path) -> None:
        self.z4ai.model_delta.decompress_file(str(source), str(base), str(target))
