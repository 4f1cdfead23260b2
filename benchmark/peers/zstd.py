"""Zstandard through the package `zstandard`: what one gets without knowing that the bytes are weights."""

from __future__ import annotations

from harness.environments import Environment
from harness.peer import Peer


class Zstd(Peer):
    environment = Environment("zstd", ("zstandard", "numpy"))
    efforts = ("3", "19")
    delta_efforts = ("xor-3",)

    def __init__(self) -> None:
        import numpy
        import zstandard

        self.numpy, self.zstandard = numpy, zstandard

    def version(self) -> str:
        return self.zstandard.__version__

    def compress(
        self, data: memoryview, dtype: str | None, shape: tuple[int, ...] | None, effort: str, threads: int
    ) -> bytes:
        return self.zstandard.ZstdCompressor(level=int(effort), threads=threads).compress(data)

    def decompress(self, blob: bytes, effort: str, threads: int) -> bytes | memoryview:
        return self.zstandard.ZstdDecompressor().decompress(blob)

    def compress_delta(self, current: bytes, reference: bytes, dtype: str, effort: str, threads: int) -> bytes:
        """XOR with the reference, byte planes apart, then zstd; the width travels in front."""
        width = {"bf16": 2, "fp16": 2, "fp32": 4}[dtype]
        planes = self._xor(current, reference).reshape(-1, width).T
        return bytes([width]) + self.zstandard.ZstdCompressor(level=3, threads=threads).compress(planes.tobytes())

    def decompress_delta(self, blob: bytes, reference: bytes, effort: str, threads: int) -> bytes | memoryview:
        decoded = self.zstandard.ZstdDecompressor().decompress(memoryview(blob)[1:])
        planes = self.numpy.frombuffer(decoded, dtype=self.numpy.uint8).reshape(blob[0], -1)
        return self._xor(planes.T.tobytes(), reference).tobytes()

    def _xor(self, left: bytes, right: bytes):
        read = self.numpy.frombuffer
        return read(left, dtype=self.numpy.uint8) ^ read(right, dtype=self.numpy.uint8)
