"""What the bytes of a stored training run are made of, and how few they could be.

Each part of a checkpoint (weights, first and second moment) is coded by itself and against the same part some steps
earlier. The bound is what a coder takes that knows the earlier value and nothing else: the entropy of each difference's
sign, length and three leading bits, given sign and exponent of the earlier value, and the bits below as they are. Those are
noise, which the last column shows: it is their entropy, byte by byte, per bit.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.report import Report, Table, number
from workloads import store

#: Checkpoints between the two that are compared; ten steps each.
GAPS = (1, 5, 19)
PARTS = {"weights": ("model", ""), "exp_avg": ("optimizer", ".exp_avg"), "exp_avg_sq": ("optimizer", ".exp_avg_sq")}
TYPES = {"fp32": (np.dtype("<u4"), "fp32", 32), "bf16": (np.dtype("<u2"), "bf16", 16)}
#: Bits of a difference, from its highest down, that a model may know something of.
LEADING = 3
#: Bits of a number's mantissa.
MANTISSA = {16: 7, 32: 23}


def part(folder: Path, name: str, kind: np.dtype) -> np.ndarray:
    """The elements of all tensors of one part, as the integers that their bits are."""
    import torch
    from safetensors import safe_open

    file, ending = PARTS[name]
    with safe_open(folder / f"{file}.safetensors", "pt") as opened:
        names = [key for key in sorted(opened.keys()) if key.endswith(ending)]
        if name == "weights":
            names = [key for key in names if not key.endswith((".exp_avg", ".exp_avg_sq"))]
        tensors = [opened.get_tensor(key).contiguous().flatten() for key in names]
    return torch.cat(tensors).view(torch.uint8).numpy().view(kind)


def ordered(bits: np.ndarray, width: int) -> np.ndarray:
    """Integers in the order of the numbers, so that neighbours differ by one."""
    wide = bits.astype(np.int64)
    sign = 1 << (width - 1)
    return np.where(wide & sign, sign - wide, wide)


def entropy(counts: np.ndarray) -> float:
    """Bits that all symbols with these counts take."""
    counts = counts[counts > 0]
    return float(-(counts * np.log2(counts / counts.sum())).sum())


def bound(current: np.ndarray, before: np.ndarray, width: int) -> tuple[float, float, float]:
    """Bits of an element that a coder takes which knows the earlier value, how many of them are noise, and the entropy of one."""
    change = ordered(current, width) - ordered(before, width)
    size = np.abs(change)
    lengths = np.frexp(size.astype(np.float64))[1]
    low = np.maximum(lengths - LEADING, 0)
    symbols = ((lengths.astype(np.int64) << LEADING) | (size >> low)) << 1 | (change < 0)
    contexts = before.astype(np.int64) >> MANTISSA[width]
    alphabet = int(symbols.max()) + 1
    joint = np.bincount(contexts * alphabet + symbols, minlength=alphabet << (width - MANTISSA[width]))
    known = sum(entropy(row) for row in joint.reshape(-1, alphabet)) / current.size
    whole = low // 8 * 8
    counts = np.zeros(256)
    for shift in range(0, width, 8):
        counts += np.bincount((size[whole > shift] >> shift) & 255, minlength=256)
    noise = entropy(counts) / counts.sum() / 8 if counts.sum() else 0.0
    return known + float(low.mean()), float(low.mean()), noise


def run(options) -> Report:
    import z4ai

    store.train()
    report = Report("store-study", vars(options))
    columns = [
        "run",
        "part",
        "steps apart",
        "alone bits",
        "delta bits",
        "bound bits",
        "noise bits",
        "entropy of noise bits",
    ]
    table = Table("Bits per element of the parts of a checkpoint", columns)
    totals: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for dtype, (kind, name, width) in TYPES.items():
        folders = sorted((store.RUNS / dtype).iterdir())
        last = len(folders) - 1
        for gap in GAPS:
            for piece in PARTS:
                current, before = part(folders[last], piece, kind), part(folders[last - gap], piece, kind)
                data, base = current.tobytes(), before.tobytes()
                alone = len(z4ai.compress(data, dtype=name)) * 8 / current.size
                delta = len(z4ai.compress_delta(data, base, dtype=name)) * 8 / current.size
                least, noise, share = bound(current, before, width)
                totals.setdefault((dtype, gap), []).append((min(alone, delta), min(alone, least)))
                row = [number(alone), number(delta), number(least), number(noise), number(share, 3)]
                table.rows.append([dtype, piece, str(gap * store.STEPS), *row])
    report.tables.append(table)
    goals = Table("All parts together, bits per element", ["run", "steps apart", "ours bits", "bound bits"])
    for (dtype, gap), found in totals.items():
        ours, least = (sum(column) / len(found) for column in zip(*found, strict=True))
        goals.rows.append([dtype, str(gap * store.STEPS), number(ours), number(least)])
    report.tables.append(goals)
    return report
