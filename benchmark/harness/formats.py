"""The file formats that are measured: their suffix, who writes the file that everybody reads, and how large it may
get.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.session import Session, Sessions

DATA = Path(__file__).resolve().parents[1] / "data"


@dataclass(frozen=True)
class Format:
    name: str
    suffix: str
    writers: tuple[str, ...]
    megabytes_limit: int | None = None


FORMATS = {
    format.name: format
    for format in (
        Format("zt", ".zt", ("ztensor_here", "ztensor_1_2")),
        Format("zt-2", ".zt", ("ztensor_2_1",)),
        Format("safetensors", ".safetensors", ("safetensors",)),
        Format("pt", ".pt", ("torch",)),
        Format("npz", ".npz", ("numpy",)),
        Format("gguf", ".gguf", ("gguf",)),
        # A protobuf message ends at 2 GB.
        Format("onnx", ".onnx", ("onnx",), megabytes_limit=1000),
        Format("h5", ".h5", ("h5py",)),
        # Deflate writes at tens of megabytes a second.
        Format("npz-deflate", ".npz", ("numpy",), megabytes_limit=256),
        Format("h5-gzip", ".h5", ("h5py",), megabytes_limit=256),
    )
}


def size_for(format: str, megabytes: int) -> int:
    limit = FORMATS[format].megabytes_limit
    return megabytes if limit is None else min(megabytes, limit)


def file_for(format: str, distribution: str, megabytes: int, sessions: Sessions) -> Path | None:
    """The file of that format, made if it is not there yet; `None` when nobody who writes it is available."""
    described = FORMATS[format]
    path = DATA / f"{distribution}-{size_for(format, megabytes)}-{format}{described.suffix}"
    if path.exists():
        return path
    for writer in described.writers:
        session: Session | None = sessions.get(writer)
        if session is not None:
            DATA.mkdir(exist_ok=True)
            # A name that keeps the suffix: some libraries look at it, and NumPy appends its own.
            unfinished = path.with_name(f"unfinished-{path.name}")
            session.call(
                "write",
                "make",
                path=unfinished,
                format=format,
                distribution=distribution,
                megabytes=size_for(format, megabytes),
            )
            unfinished.rename(path)
            return path
    return None
