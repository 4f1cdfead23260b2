"""Save and load PyTorch tensors and models, with the interface of ``safetensors.torch``.

>>> import torch
>>> from ztensor.torch import load_file, save_file
>>> save_file({"weight": torch.ones(2, 3)}, "model.zt")
>>> load_file("model.zt")["weight"].shape
torch.Size([2, 3])
"""

from __future__ import annotations

import os
from typing import TypeVar

import torch

from . import _native
from ._errors import warn_of_skipped
from ._shared import names_to_drop, overlapping
from ._types import Backend, Compression, Metadata, io_of

__all__ = ["load", "load_file", "load_model", "save", "save_file", "save_model"]

#: A dict of parameters is one of tensors.
_Tensor = TypeVar("_Tensor", bound=torch.Tensor)


def save_file(
    tensors: dict[str, _Tensor],
    filename: str | os.PathLike[str],
    metadata: Metadata = None,
    compression: Compression = False,
) -> None:
    """Saves tensors to a file: ``.safetensors`` if the name ends so, ``.zt`` otherwise.

    Tensors must be dense, contiguous and must not share memory; :func:`save_model` takes care of models whose parameters do.

    :param metadata: text that is stored with the file; ``Reader.file_metadata`` and ``safe_open(...).metadata()`` give it back.
    :param compression: ``False`` stores raw bytes, ``True`` is zstd level 3, 1 to 22 is that zstd level.
    """
    check(tensors)
    _native.save_file(tensors, filename, metadata, compression)


def save(tensors: dict[str, _Tensor], metadata: Metadata = None, compression: Compression = False) -> bytes:
    """The bytes of the ``.zt`` file that :func:`save_file` would write."""
    check(tensors)
    return _native.save(tensors, metadata, compression)


def load_file(
    filename: str | os.PathLike[str],
    device: str | int | torch.device = "cpu",
    copy: bool = False,
    *,
    backend: Backend = None,
    verify: bool = True,
    base: str | os.PathLike[str] | _native.Reader | None = None,
) -> dict[str, torch.Tensor]:
    """Loads all tensors of a file of any format; sparse ones become PyTorch's sparse tensors.

    :param device: what ``torch.device`` takes, or the number of a GPU.
    :param copy: ``False`` gives views of a copy-on-write memory map: writable, private to this process, valid for as long as they are
        used. ``True`` gives tensors in memory of their own.
    :param backend: ``"mmap"`` maps the file, ``"pread"`` reads it; ``None`` takes the better one for the file system.
    :param verify: check the checksums that the file stores. Without them, and with ``False``, views cost no reading at all.
    :param base: the base of a delta, as a path or an opened file.
    """
    reader = _native.Reader(filename, io_of(backend), verify=verify, base=base, keep_open=copy)
    warn_of_skipped(reader.skipped(), filename)
    tensors: dict[str, torch.Tensor] = reader.read_torch(reader.keys(), copy=copy, device=device)
    return tensors


def load(data: bytes) -> dict[str, torch.Tensor]:
    """Loads all tensors of a file of any format that is already in memory."""
    reader = _native.Reader.from_bytes(data)
    warn_of_skipped(reader.skipped(), None)
    tensors: dict[str, torch.Tensor] = reader.read_torch(reader.keys())
    return tensors


def save_model(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    metadata: Metadata = None,
    force_contiguous: bool = True,
) -> None:
    """Saves all parameters and buffers of a model. Of parameters that share memory one is stored, and the metadata notes under which
    name the others' values are.

    :param force_contiguous: copy tensors that are not contiguous; otherwise they are an error.
    """
    state = model.state_dict()
    notes = dict(metadata or {})
    for kept, dropped in names_to_drop(state).items():
        for name in dropped:
            notes.setdefault(name, kept)
            del state[name]
    if force_contiguous:
        state = {name: tensor.contiguous() for name, tensor in state.items()}
    try:
        save_file(state, filename, metadata=notes or None)
    except ValueError as error:
        if force_contiguous:
            raise
        raise ValueError(f"{error} Or use save_model(..., force_contiguous=True).") from error


def load_model(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    strict: bool = True,
    device: str | int | torch.device = "cpu",
    copy: bool = False,
    *,
    backend: Backend = None,
) -> tuple[list[str], list[str]]:
    """Loads a file into a model. Returns the names the file lacks and the names the model does not know.

    :param strict: raise ``RuntimeError`` if there are any of either.
    """
    state = load_file(filename, device=device, copy=copy, backend=backend)
    shared = names_to_drop(model.state_dict(), preferred=set(state))
    result = model.load_state_dict(state, strict=False)
    missing, unexpected = set(result.missing_keys), list(result.unexpected_keys)
    # A name that shares its memory with one that was loaded is neither missing nor, if it is there after all, expected.
    for dropped in shared.values():
        for name in dropped:
            if name in missing:
                missing.remove(name)
            else:
                unexpected.append(name)
    if strict and (missing or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        for title, names in (("Missing", missing), ("Unexpected", unexpected)):
            if names:
                listed = ", ".join(f'"{name}"' for name in sorted(names))
                lines.append(f"    {title} key(s) in state_dict: {listed}")
        raise RuntimeError("\n".join(lines))
    return sorted(missing), unexpected


def check(tensors: dict[str, _Tensor]) -> None:
    """Raises unless these are tensors that can be saved: dense, contiguous, and none sharing memory with another."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of str to torch.Tensor, but received {type(tensors)}")
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"`{name}` is not a torch.Tensor but {type(tensor)}")
    sparse = [name for name, tensor in tensors.items() if tensor.layout != torch.strided]
    if sparse:
        raise ValueError(
            f"These tensors are sparse: {sparse}. Make them dense with `.to_dense()`, or write their components with"
            " `ztensor.Writer.write`."
        )
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(
                f"`{name}` is not contiguous. If it is a part of another tensor, save that one and slice it after loading;"
                " otherwise call `.contiguous()` on it before saving."
            )
    shared = overlapping(tensors)
    if shared:
        raise RuntimeError(
            f"Some tensors share memory: {[sorted(names) for names in shared]}. Saved like this they would be stored twice and come"
            " back as separate tensors. `save_model` stores each once; or clone them to make them separate."
        )
