"""Sizes only, on numbers of every origin: no frame of ours may be larger than what a peer makes of the same bytes.

One tensor of several real models in every case of `codec/origins.py`, and small models whole, as they are and cast. Every
decoded byte is compared. The record keeps the bytes of each case; the test of sizes compares with those of `TESTED`. What peers
make of a case is kept beside the data, by its digest, since they do not change.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.formats import DATA
from harness.peer import Peer, peer_class
from harness.report import Report, Table, Target, number
from harness.session import PeerError, Session, Sessions
from harness.weights import Weights, weights_in

#: Of each run its own.
CASES = DATA / f"origins-{os.getpid()}"
OURS = "z4ai_here"
PEERS = {"z4ai_0_2": ("default", "max"), "zipnn": ("default",), "zstd": ("19",)}
#: part → set, tensor, and how much of it: rows and columns stay multiples of 128.
TENSORS = {
    "minilm": ("minilm.fp32", "encoder.layer.0.intermediate.dense.weight", np.s_[:512]),
    "minilm-small": ("minilm.fp32", "encoder.layer.0.attention.self.query.weight", np.s_[:256, :256]),
    "wordllama": ("wordllama.fp16", "embedding.weight", np.s_[:256]),
    "resemb": ("resemb.fp32", "/model_state/lstm.weight_hh_l0", np.s_[:, :]),
    "crepe": ("crepe.fp32", "/conv4.weight", np.s_[:, :8]),
    "nudenet": ("nudenet.fp32", "model.8.m.0.cv1.conv.weight", np.s_[:, :]),
    "ppocr_rec": ("ppocr_rec.fp32", "conv2d_184.w_0", np.s_[:256, :256]),
    "ppocr_det": ("ppocr_det.fp32", "conv2d_421.w_0", np.s_[:256, :256]),
}
#: The part that the tests make again.
TESTED = "minilm-small"
MODELS = ("nudenet", "ppocr_det", "ppocr_rec", "resemb")
#: z4ai 0.2 at maximum effort makes half a megabyte a second.
MOST_FOR_MAX = 150_000
WHOLE = "whole models"
#: What peers made of which bytes.
KNOWN = DATA / "origins-of-peers.json"


def measure(
    peer: Peer, folder: str, effort: str, threads: int, granularity: str, names: list[str] | None = None
) -> dict:
    """The bytes that each case of a folder takes, or some of them do, all of which are decoded and compared."""
    found = {}
    for weights in weights_in(Path(folder)):
        if names is not None and weights.name not in names:
            continue
        total = 0
        for piece, shape in weights.pieces(granularity):
            blob = peer.compress(peer.input_for_compressing(memoryview(piece)), weights.dtype, shape, effort, threads)
            if memoryview(peer.decompress(blob, effort, threads)).cast("B") != memoryview(piece):
                raise ValueError(f"{weights.name}: the decoded bytes differ from the original")
            total += len(blob)
        found[weights.name] = total
    return {"sizes": found}


def tensor_of(sets: Path, part: str) -> np.ndarray:
    from codec.origins import one_tensor

    file, name, cut = TENSORS[part]
    return np.ascontiguousarray(one_tensor(sets / file, name)[cut])


def _build(part: str, sets: Path) -> dict[str, dict]:
    """Writes the cases of a part and says what they are."""
    from codec.origins import cases
    from codec.structured import _store

    shutil.rmtree(CASES, ignore_errors=True)
    CASES.mkdir(parents=True)
    described = {}
    for case in cases(tensor_of(sets, part)) if part in TENSORS else ():
        _store(CASES / case.name, [("tensor", np.empty(case.shape, dtype=np.uint8), case.data)])
        described[case.name] = {"origin": case.origin, "scale": case.scale, "dtype": case.dtype}
    for name, origin, dtype, tensors in _models(sets) if part == WHOLE else ():
        _store(CASES / f"{name}-{origin}.{dtype}", tensors)
        described[f"{name}-{origin}.{dtype}"] = {"origin": origin, "scale": name, "dtype": dtype}
    for name in described:
        weights = Weights(CASES / name)
        described[name]["elements"] = weights.path.stat().st_size // weights.width
    return described


def _models(sets: Path) -> Iterator[tuple[str, str, str, list]]:
    from codec.origins import PLAIN, STORED

    for model in MODELS:
        source = Weights(sets / f"{model}.fp32")
        names = [line.split("\t")[3] for line in Path(f"{source.path}.tsv").read_text().splitlines()]
        arrays = [np.frombuffer(piece, dtype=np.float32).reshape(shape) for piece, shape in source.pieces("tensors")]
        for origin, dtypes in (("dense", ("fp32", "fp16", "bf16")), ("bf16", ("fp32", "fp16")), ("fp16", ("fp32",))):
            changed = [np.ascontiguousarray(PLAIN[origin](array), dtype=np.float32) for array in arrays]
            for dtype in dtypes:
                tensors = [(name, array, STORED[dtype](array)) for name, array in zip(names, changed, strict=True)]
                yield model, origin, dtype, tensors


def run(sessions: Sessions, options) -> Report:
    from workloads.codec import SETS, prepare

    prepare()
    report = Report("codec-sizes", vars(options))
    parts = options.parts or [*TENSORS, WHOLE]
    for part in parts:
        described = _build(part, SETS)
        for peer, effort, granularity in _contestants(part, described, options):
            session = sessions.get(peer)
            if session is None:
                continue
            label = f"{peer} {effort}" + ("" if granularity == "tensors" else ", as one buffer")
            arguments = {"folder": CASES, "effort": effort, "threads": 1, "granularity": granularity}
            try:
                sizes = _sizes(session, label, list(described), arguments)
            except PeerError as error:
                report.notes.append(f"{part}, {label}: {error}")
                continue
            for name, size in sizes.items():
                described[name][label] = size
        report.data[part] = described
        shutil.rmtree(CASES)
    report.tables = [_summary(report), _bits(report, parts), _larger(report)]
    report.targets = _targets(report)
    return report


def _sizes(session: Session, label: str, names: list[str], arguments: dict) -> dict[str, int]:
    """The bytes of each case. Those of peers are measured once."""
    if session.peer == OURS:
        return session.call("sizes", "measure", **arguments)["sizes"]
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}

    def key(name: str) -> str:
        contents = b"".join((CASES / file).read_bytes() for file in (name, f"{name}.tsv"))
        return f"{session.version} {label} {hashlib.sha256(contents).hexdigest()}"

    keys = {name: key(name) for name in names}
    missing = [name for name in names if keys[name] not in known]
    if missing:
        measured = session.call("sizes", "measure", **arguments, names=missing)["sizes"]
        known |= {keys[name]: size for name, size in measured.items()}
        KNOWN.write_text(json.dumps(known))
    return {name: known[keys[name]] for name in names if keys[name] in known}


def _contestants(part: str, described: dict[str, dict], options) -> Iterator[tuple[str, str, str]]:
    granularities = ("tensors", "whole") if part == WHOLE else ("tensors",)
    for granularity in granularities:
        for effort in peer_class(OURS).efforts:
            yield OURS, effort, granularity
        for peer, efforts in PEERS.items():
            for effort in efforts:
                elements = max(facts["elements"] for facts in described.values())
                if effort not in options.skip_efforts and (effort != "max" or elements <= MOST_FOR_MAX):
                    yield peer, effort, granularity


def _comparisons(facts: dict) -> Iterator[tuple[str, str, float]]:
    """Our effort, the peer that it is held against, and the peer's bytes over ours: by tensor against the smaller of a peer's
    two, as one buffer against one buffer.
    """
    for suffix in ("", ", as one buffer"):
        for effort in peer_class(OURS).efforts:
            ours = facts.get(f"{OURS} {effort}{suffix}")
            for peer, efforts in PEERS.items():
                for their_effort in efforts:
                    if their_effort == "max" and effort != "max":
                        continue
                    labels = [f"{peer} {their_effort}{tail}" for tail in ({suffix, ", as one buffer"})]
                    theirs = [facts[label] for label in labels if label in facts]
                    if ours and theirs:
                        yield f"{effort}{suffix}", f"{peer} {their_effort}", min(theirs) / ours


def _worst(report: Report) -> dict[tuple[str, str, str], tuple[float, str, int, int]]:
    """part, effort, peer → the least ratio with its case, how many cases there are, and in how many ours is larger."""
    found: dict[tuple[str, str, str], tuple[float, str, int, int]] = {}
    for part, described in report.data.items():
        for name, facts in described.items():
            for effort, peer, ratio in _comparisons(facts):
                least, case, count, larger = found.get((part, effort, peer), (float("inf"), "", 0, 0))
                least, case = min((least, case), (ratio, name))
                found[part, effort, peer] = (least, case, count + 1, larger + (ratio < 1))
    return found


def _summary(report: Report) -> Table:
    columns = ["part", "effort", "peer", "cases", "ours larger", "worst", "peer ÷ ours there"]
    table = Table("Ours beside each peer", columns)
    for (part, effort, peer), (least, case, count, larger) in _worst(report).items():
        table.rows.append([part, effort, peer, str(count), str(larger), case, number(least, 4)])
    return table


def _bits(report: Report, parts: list[str]) -> Table:
    """One part in full."""
    part = parts[0]
    columns = [f"{OURS} {effort}" for effort in peer_class(OURS).efforts]
    columns += [f"{peer} {efforts[0]}" for peer, efforts in PEERS.items()]
    table = Table(f"Bits per element, {part}", ["case", *columns])
    for name, facts in report.data[part].items():
        sizes = [facts.get(column) for column in columns]
        table.rows.append([name, *(number(size * 8 / facts["elements"] if size else None, 3) for size in sizes)])
    return table


def _larger(report: Report) -> Table:
    table = Table("Where ours is larger", ["part", "case", "effort", "peer", "ours, bits per element", "peer ÷ ours"])
    for part, described in report.data.items():
        for name, facts in described.items():
            for effort, peer, ratio in _comparisons(facts):
                if ratio < 1:
                    bits = facts[f"{OURS} {effort}"] * 8 / facts["elements"]
                    table.rows.append([part, name, effort, peer, number(bits, 3), number(ratio, 4)])
    return table


def _targets(report: Report) -> list[Target]:
    return [
        Target(f"{part}: {effort} never larger than {peer}", 1.0, least)
        for (part, effort, peer), (least, *_) in _worst(report).items()
        if not effort.startswith("fast") or peer.startswith("zstd")
    ]
