"""Which tensors of a state dict share memory, and which name to keep of those that do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

import torch


def overlapping(tensors: Mapping[str, torch.Tensor]) -> list[set[str]]:
    """Groups of names whose tensors overlap in memory. Tensors that lie in one storage without touching are not a group."""
    storages: dict[tuple[torch.device, int], list[tuple[int, int, str]]] = defaultdict(list)
    for name, tensor in tensors.items():
        if tensor.device.type == "meta" or tensor.layout != torch.strided:
            continue
        start, end = _extent(tensor)
        if start != end:
            storages[(tensor.device, tensor.untyped_storage().data_ptr())].append((start, end, name))
    groups = []
    for extents in storages.values():
        if len(extents) == 1:
            continue
        extents.sort()
        group, reach = {extents[0][2]}, extents[0][1]
        for start, end, name in extents[1:]:
            if start >= reach:
                groups.append(group)
                group = set()
            group.add(name)
            reach = max(reach, end)
        groups.append(group)
    return [group for group in groups if len(group) > 1]


def names_to_drop(tensors: dict[str, torch.Tensor], preferred: Collection[str] = ()) -> dict[str, list[str]]:
    """For each group of tensors that share memory, the name to keep and the names to drop.

    The one that is kept covers its whole storage; among several, one of the ``preferred`` names, else the first in the alphabet.
    """
    drop = {}
    for names in overlapping(tensors):
        whole = sorted(name for name in names if _is_whole(tensors[name]))
        if not whole:
            raise RuntimeError(
                f"The tensors {sorted(names)} share memory, but none of them covers all of it, so none can stand for the others."
                " Clone them, or save the tensor they are parts of."
            )
        kept = next((name for name in whole if name in preferred), whole[0])
        drop[kept] = sorted(names - {kept})
    return drop


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte of a tensor and the first byte behind it."""
    start = tensor.data_ptr()
    if tensor.numel() == 0:
        return start, start
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.element_size()


def _is_whole(tensor: torch.Tensor) -> bool:
    storage = tensor.untyped_storage()
    return tensor.data_ptr() == storage.data_ptr() and tensor.nbytes == storage.nbytes()
