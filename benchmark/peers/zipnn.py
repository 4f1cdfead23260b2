"""The package `zipnn`: byte-grouping with Huffman codes. It needs torch, which is borrowed from the project's
environment.
"""

from __future__ import annotations

from importlib.metadata import version

from harness.environments import Environment
from harness.peer import Peer

NAMES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
}


class Zipnn(Peer):
    environment = Environment("zipnn", ("zipnn==0.5.4", "numpy", "zstandard"), borrowed=("torch", "safetensors"))
    efforts = ("default",)

    def __init__(self) -> None:
        import zipnn

        self.zipnn = zipnn

    def version(self) -> str:
        return version("zipnn")

    def _codec(self, dtype: str | None, threads: int):
        # Opaque bytes have no name in its table; its own command line treats them as bfloat16.
        return self.zipnn.ZipNN(input_format="byte", bytearray_dtype=NAMES.get(dtype, "bfloat16"), threads=threads)

    def input_for_compressing(self, data: memoryview) -> bytearray:
        # It groups bytes in place, which spoils what it is given.
        return bytearray(data)

    def compress(
        self, data: memoryview, dtype: str | None, shape: tuple[int, ...] | None, effort: str, threads: int
    ) -> bytes:
        return self._codec(dtype, threads).compress(data)

    def decompress(self, blob: bytes, effort: str, threads: int) -> bytes | memoryview:
        return self._codec("bf16", threads).decompress(blob)
