"""Save and load PyTorch tensors and models, with the interface of ``safetensors.torch``.

>>> import torch
>>> from ztensor.torch import load_file, save_file
>>> save_file({"weight": torch.ones(2, 3)}, "model.zt")
>>> load_file("model.zt")["weight"].shape
torch.Size([2, 3])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

import torch

from . import _native
from ._errors import from_core, invalid, warn_of_skipped
from ._loading import load_files
from ._shared import names_to_drop, overlapping
from ._trees import Leaf, Special, Unread, put_together, take_apart, tree_of, with_tree
from ._types import (
    Backend,
    Base,
    Checksum,
    Codec,
    Compression,
    Dequantize,
    Effort,
    Metadata,
    Path,
    Paths,
    Progress,
    StorageOptions,
)

__all__ = ["load", "load_file", "load_model", "load_tree", "save", "save_file", "save_model", "save_tree"]

#: The layouts that PyTorch and files both have.
_STORED_LAYOUTS = (
    torch.strided,
    torch.sparse_coo,
    torch.sparse_csr,
    torch.sparse_csc,
    torch.sparse_bsr,
    torch.sparse_bsc,
)


def save_file(
    tensors: Mapping[str, torch.Tensor | _native.Tensor],
    filename: Path,
    metadata: Metadata = None,
    compression: Compression = False,
    *,
    codec: Codec = None,
    effort: Effort = None,
    level: int | None = None,
    checksum: Checksum = None,
    progress: Progress = None,
) -> None:
    """Saves tensors to a file: ``.safetensors`` or, as ``torch.save`` does, ``.pt`` (``.pth``, ``.bin``, ``.ckpt``) if the name ends
    so, ``.zt`` otherwise. Names of formats that are not written are refused.

    Tensors must be contiguous and must not share memory; :func:`save_model` takes care of models whose parameters do. Sparse tensors
    (CSR and COO) and :class:`ztensor.Tensor`s, which :func:`load_file` gives for what PyTorch has no tensor for, go into ``.zt``
    files.

    :param metadata: text that is stored with the file; ``Reader.file_metadata`` and ``safe_open(...).metadata()`` give it back.
    :param codec: ``"z4ai"`` for weights, ``"zstd"`` for readers of other makes; ``None`` stores raw bytes.
    :param effort: ``"fast"``, ``"default"`` or ``"max"``, for z4ai.
    :param level: 1 to 22, for zstd.
    :param checksum: ``"crc32c"`` or ``"sha256"`` stores one with each tensor.
    :param compression: the older word for codec, effort and level: ``True`` is zstd level 3, 1 to 22 is that zstd level.
    :param progress: called with the bytes done and the bytes in all.
    """
    checked = check(tensors, dense_only=PurePath(filename).suffix.lower() == ".safetensors")
    words: dict[str, Any] = {"codec": codec, "effort": effort, "level": level, "checksum": checksum}
    _native.save_file(checked, filename, metadata, compression, **words, progress=progress)


def save(
    tensors: Mapping[str, torch.Tensor | _native.Tensor],
    metadata: Metadata = None,
    compression: Compression = False,
    *,
    codec: Codec = None,
    effort: Effort = None,
    level: int | None = None,
    checksum: Checksum = None,
) -> bytes:
    """The bytes of the ``.zt`` file that :func:`save_file` would write."""
    words: dict[str, Any] = {"codec": codec, "effort": effort, "level": level, "checksum": checksum}
    return _native.save(check(tensors), metadata, compression, **words)


def load_file(
    filename: Paths,
    device: str | int | torch.device = "cpu",
    copy: bool = False,
    *,
    backend: Backend = None,
    verify: bool = True,
    base: Base = None,
    keys: Iterable[str] | None = None,
    dtype: torch.dtype | str | None = None,
    dequantize: Dequantize = None,
    progress: Progress = None,
    limits: _native.Limits | None = None,
    storage_options: StorageOptions = None,
) -> dict[str, Any]:
    """Loads the tensors of a file of any format, of the one model in a folder, or of several: as PyTorch's, sparse ones too, and
    as :class:`ztensor.Tensor` where PyTorch has no tensor that says what they are, which is so for quantised ones.
    :func:`save_file` takes both.

    :param device: what ``torch.device`` takes, or the number of a GPU.
    :param copy: ``False`` gives views of a copy-on-write memory map: writable, private to this process, valid for as long as they are
        used. ``True`` gives tensors in memory of their own.
    :param backend: ``"mmap"`` maps the file, ``"pread"`` reads it; ``None`` takes the better one for the file system.
    :param verify: check the checksums that the file stores. Without them, and with ``False``, views cost no reading at all.
    :param base: where the base of a delta is: a file, a folder or an opened file, or a list of them.
    :param keys: the names of the tensors to load; ``None`` loads all.
    :param dtype: what floating-point tensors are converted to, such as ``torch.float16``.
    :param dequantize: ``True`` or a dtype gives quantised tensors as the numbers they stand for.
    :param progress: called with the bytes done and the bytes in all.
    :param limits: what the file may cost, for files that the defaults refuse, or that are trusted less.
    :param storage_options: endpoints and keys for URLs, such as ``{"endpoint_url": ..., "key": ..., "secret": ...}``.
    """
    target = getattr(torch, dtype.removeprefix("torch.")) if isinstance(dtype, str) else dtype

    def read(reader: _native.Reader, names: list[str]) -> dict[str, Any]:
        tensors = reader.read_torch(names, copy=copy, device=device, dequantize=dequantize, objects=True)
        if target is None:
            return tensors
        return {name: tensor.to(target) if _is_floating(tensor) else tensor for name, tensor in tensors.items()}

    return load_files(
        filename,
        read,
        backend=backend,
        verify=verify,
        base=base,
        keep_open=copy,
        keys=keys,
        progress=progress,
        limits=limits,
        storage_options=storage_options,
    )


def load(data: bytes, *, dequantize: Dequantize = None, limits: _native.Limits | None = None) -> dict[str, Any]:
    """Loads all tensors of a file of any format that is already in memory, as :func:`load_file` does."""
    reader = _native.Reader.from_bytes(data, limits=limits)
    warn_of_skipped(reader.skipped(), None)
    return reader.read_torch(reader.keys(), dequantize=dequantize, objects=True)


def save_model(
    model: torch.nn.Module,
    filename: Path,
    metadata: Metadata = None,
    force_contiguous: bool = True,
    *,
    compression: Compression = False,
    codec: Codec = None,
    effort: Effort = None,
    level: int | None = None,
    checksum: Checksum = None,
    progress: Progress = None,
) -> None:
    """Saves all parameters and buffers of a model. Of parameters that share memory one is stored, and the metadata notes under which
    name the others' values are.

    :param force_contiguous: copy tensors that are not contiguous; otherwise they are an error.

    The other parameters are those of :func:`save_file`.
    """
    state = model.state_dict()
    notes = dict(metadata or {})
    for kept, dropped in names_to_drop(state).items():
        for name in dropped:
            notes.setdefault(name, kept)
            del state[name]
    if force_contiguous:
        state = {name: tensor.contiguous() for name, tensor in state.items()}
    words: dict[str, Any] = {"codec": codec, "effort": effort, "level": level, "checksum": checksum}
    try:
        save_file(state, filename, notes or None, compression, **words, progress=progress)
    except ValueError as error:
        if force_contiguous:
            raise
        raise ValueError(f"{error} Or use save_model(..., force_contiguous=True).") from error


def load_model(
    model: torch.nn.Module,
    filename: Paths,
    strict: bool = True,
    device: str | int | torch.device = "cpu",
    copy: bool = False,
    *,
    backend: Backend = None,
    base: Base = None,
    prefix: str = "",
    dequantize: Dequantize = None,
    progress: Progress = None,
    storage_options: StorageOptions = None,
) -> tuple[list[str], list[str]]:
    """Loads a file into a model. Returns the names the file lacks and the names the model does not know.

    :param strict: raise ``RuntimeError`` if there are any of either.
    :param prefix: what the names in the file have before those of the model, such as ``"model."`` or ``"module."``. Other names are
        left out.

    The other parameters are those of :func:`load_file`.
    """
    state = load_file(
        filename,
        device=device,
        copy=copy,
        backend=backend,
        base=base,
        dequantize=dequantize,
        progress=progress,
        storage_options=storage_options,
    )
    if prefix:
        state = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
    expected = model.state_dict()
    shared = names_to_drop(expected, preferred=set(state))
    result = model.load_state_dict(state, strict=False)
    missing, unexpected = set(result.missing_keys), list(result.unexpected_keys)
    # A name that shares its memory with one that was loaded is not missing. If it is there after all, it has to have the same values.
    for kept, dropped in shared.items():
        for name in dropped:
            if name in missing:
                missing.remove(name)
            elif name in state and not (kept in state and _is_same(state[name], state[kept])):
                unexpected.append(name)
    if strict and (missing or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        for title, names in (("Missing", missing), ("Unexpected", unexpected)):
            if names:
                listed = ", ".join(f'"{name}"' for name in sorted(names))
                lines.append(f"    {title} key(s) in state_dict: {listed}")
        needed = [name for name in expected if not any(name in dropped for dropped in shared.values())]
        lines.extend(_prefix_hint(needed, list(state), prefix))
        raise RuntimeError("\n".join(lines))
    return sorted(missing), unexpected


def _is_same(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor) or one.shape != other.shape:
        return one is other
    return one.dtype == other.dtype and (one.data_ptr() == other.data_ptr() or torch.equal(one, other))


def save_tree(tree: Any, filename: Path, metadata: Metadata = None, **options: Any) -> None:
    """Saves nested dicts, lists, tuples, sets, numbers, text, bytes, ``None``, tensors and arrays, such as a training checkpoint
    (model, optimizer, scheduler, random state, step), without pickle. A tensor that occurs several times is stored once. A name that
    ends in ``.pt`` gets a file as ``torch.save`` writes it, which ``torch.load(..., weights_only=True)`` opens.

    The options are those of :func:`save_file`.
    """
    text, tensors = take_apart(tree, leaf_of, special_of, filename)
    _native.save_file(tensors, filename, with_tree(metadata, text), **options)


def load_tree(filename: Path, device: str | int | torch.device = "cpu", copy: bool = False, **options: Any) -> Any:
    """Loads what :func:`save_tree` or ``torch.save`` has saved: tensors as tensors, arrays as arrays, everything else as it was. No
    code of a ``.pt`` file is run; what a tree does not express is a :class:`ztensor.Unread`, and a warning says so.

    The options are those of :func:`load_file`.
    """
    reader = _native.Reader(
        filename,
        base=options.get("base"),
        limits=options.get("limits"),
        storage_options=options.get("storage_options"),
    )
    text = tree_of(reader, str(filename))
    tensors = load_file(filename, device, copy, **options)
    return put_together(text, str(filename), lambda tag, name: placed(tensors, tag, name), special_from, another)


def placed(tensors: dict[str, Any], tag: str, name: str) -> Any:
    """What a tree has in the place of a tensor, an array or a scalar."""
    from . import numpy as arrays_of

    tensor = arrays_of.given(tensors, "tensor", name)
    if tag == "tensor":
        return tensor
    if tag in ("trained", "frozen"):
        return torch.nn.Parameter(tensor, requires_grad=tag == "trained")
    array = tensor.cpu().numpy() if isinstance(tensor, torch.Tensor) else tensor
    return array[()] if tag == "scalar" else array


def another(tensor: Any) -> Any:
    """A second tensor or parameter over the memory of one."""
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
    return tensor.detach() if isinstance(tensor, torch.Tensor) else tensor


def leaf_of(value: Any) -> Leaf:
    """What is stored of a tensor or an array in a tree."""
    if not isinstance(value, torch.Tensor):
        from .numpy import leaf_of as array_leaf_of

        leaf = array_leaf_of(value)
        if leaf is None or isinstance(value, _native.Tensor):
            return leaf
        # Told apart from tensors, so that each comes back as what it was.
        return "scalar" if leaf[0] == "scalar" else "numpy", leaf[1], leaf[2], leaf[3]
    tag = "parameter" if isinstance(value, torch.nn.Parameter) else "tensor"
    attributes = dict(vars(value))
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        attributes["__class__"] = Unread(f"{type(value).__module__}.{type(value).__qualname__}")
    if tag == "tensor" and value.requires_grad:
        attributes["requires_grad"] = True
    if value.layout != torch.strided:
        return tag, id(value), value.detach(), attributes
    place = (value.device, value.untyped_storage().data_ptr(), value.storage_offset(), value.is_conj(), value.is_neg())
    shared = (place, value.shape, value.stride(), value.dtype)
    # What has no memory of its own, such as an empty tensor, has no place either.
    return tag, shared if value.numel() else None, value.detach().contiguous(), attributes


def special_of(value: Any) -> Special:
    """The form of what only PyTorch has."""
    if isinstance(value, torch.Size):
        return "size", list(value)
    if isinstance(value, torch.dtype):
        return "dtype", str(value).removeprefix("torch.")
    return ("device", str(value)) if isinstance(value, torch.device) else None


def special_from(tag: str, content: Any) -> Any:
    """What PyTorch has for a size, a dtype or a device."""
    if tag == "size":
        return torch.Size(content)
    if tag == "device":
        try:
            return torch.device(content)
        except RuntimeError as error:
            raise from_core("malformed", f"the tree cannot be read: {error}", None, None, None, None) from None
    dtype = getattr(torch, content, None)
    if not isinstance(dtype, torch.dtype):
        raise from_core("unsupported", f'this PyTorch has no dtype "{content}"', None, None, None, None)
    return dtype


def _prefix_hint(needed: list[str], found: list[str], prefix: str) -> list[str]:
    """What to do where names would fit if one side had, or had not, a prefix that all of them share."""
    if not needed or not found:
        return []
    names = set(found)
    extras = {name.removesuffix(needed[0]) for name in found if name.endswith(needed[0])} - {""}
    fitting = [extra for extra in extras if all(extra + name in names for name in needed)]
    if len(fitting) == 1:
        extra = fitting[0]
        return [f'    The names in the file begin with "{extra}": load_model(..., prefix="{prefix + extra}") fits.']
    extra = needed[0].removesuffix(next((name for name in found if needed[0].endswith(name)), needed[0]))
    if extra and all(name.startswith(extra) and name.removeprefix(extra) in names for name in needed):
        inner = extra.rstrip(".")
        return [
            f'    The names in the model begin with "{extra}", those in the file do not: load into `model.{inner}`.'
        ]
    return []


def check(
    tensors: Mapping[str, Any], dense_only: bool = False, separate: bool = True
) -> dict[str, torch.Tensor | _native.Tensor]:
    """Raises unless these are tensors that can be saved: contiguous, of a layout that is stored, and, where they are to be
    ``separate``, none sharing memory with another.
    """
    if not isinstance(tensors, dict):
        raise invalid(f"Expected a dict of str to torch.Tensor, but received {type(tensors)}")
    ours = {name: tensor for name, tensor in tensors.items() if isinstance(tensor, torch.Tensor)}
    for name, tensor in tensors.items():
        if name not in ours and not isinstance(tensor, _native.Tensor):
            raise invalid(f"`{name}` is not a torch.Tensor but {type(tensor)}")
    layouts = _STORED_LAYOUTS[:1] if dense_only else _STORED_LAYOUTS
    sparse = [name for name, tensor in ours.items() if tensor.layout not in layouts]
    if sparse:
        where = "a .safetensors file holds dense ones only: name it .zt, or make" if dense_only else "make"
        raise invalid(f"These tensors are sparse: {sparse}; {where} them dense with `.to_dense()`.")
    for name, tensor in ours.items():
        if tensor.layout == torch.strided and not tensor.is_contiguous():
            raise invalid(
                f"`{name}` is not contiguous. If it is a part of another tensor, save that one and slice it after loading;"
                " otherwise call `.contiguous()` on it before saving.",
                name,
            )
    shared = overlapping(ours) if separate else []
    if shared:
        raise invalid(
            f"Some tensors share memory: {[sorted(names) for names in shared]}. Saved like this they would be stored twice and come"
            " back as separate tensors. `save_model` stores each once; or clone them to make them separate."
        )
    return tensors


def _is_floating(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.is_floating_point()


def __dir__() -> list[str]:
    return __all__
