"""Sizes of what people store and deploy, a row for each kind: floats that were something narrower, GGUF blocks, fp8, states of
8-bit optimizers, a master copy and an average beside the weights. Each is held to the bits per element that a study of such
data found to be within reach, or to a peer. Every decoded byte is compared.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.environments import MODELS
from harness.formats import DATA
from harness.report import Report, Table, Target, number
from harness.session import Sessions

PLACE = DATA / "deployed"
#: Case of `codec/origins.py` → bits per element.
ORIGINS = {
    "bf16-none.fp16": 10.55,
    "e4m3-128x128.bf16": 6.8,
    "e4m3-row.bf16": 6.8,
    "e4m3-128x128.fp16": 7.0,
    "e4m3-row.fp16": 7.0,
    "e4m3-128x128.fp32": 7.0,
    "e4m3-row.fp32": 7.0,
    "nvfp4-none.bf16": 4.3,
    "decimals4-none.fp32": 15.0,
    "fp8_e4m3-128x128.fp8_e4m3": 6.55,
}
#: Blocks of GGUF, as an archive: the fields apart, and what knowing the zero point is worth.
BLOCKS = {"q8_0": 7.955, "q4_k": 4.19, "q5_k": 5.19, "q6_k": 6.26}
#: A convolution whose neighbours resemble each other.
CONVOLUTIONS = {"/conv3.weight": 10.35, "/conv4.weight": 10.35}
#: Sets in fp16 beside those of `codec/sets.py`, and what the fast effort may add to ZipNN's size.
FAST = ("minilm.fp16", "crepe.fp16", "magika.fp16", "spliceai.fp16")
FAST_SLACK = 1.003
MORE_SETS = {"magika.fp16": "magika/models/standard_v3_3/model.onnx", "spliceai.fp16": "spliceai/models/spliceai1.h5"}
#: Moments in eight bits, in blocks of 256: bits per element.
EIGHT_BITS = {"exp_avg_sq": 5.8, "exp_avg": 7.0}


def run(sessions: Sessions, options) -> Report:
    from workloads.codec import SETS, prepare

    prepare()
    PLACE.mkdir(parents=True, exist_ok=True)
    report = Report("deployed", vars(options))
    columns = ["what", "bits per element", "raw", "goal"]
    table = Table("What people store and deploy, default effort", columns)
    for part in (origins, convolutions, blocks, beside_each_other, eight_bit_states):
        for what, bits, raw, goal in part(SETS):
            table.rows.append([what, f"{bits:.3f}", number(raw), f"{goal:.3f}"])
            report.targets.append(Target(f"{what}: times smaller than {goal:.3f} bits per element", 1.0, goal / bits))
    report.tables += [table, fast(sessions, SETS, report)]
    return report


Row = tuple[str, float, float, float]


def frame(data: bytes, dtype: str, shape: tuple[int, ...], effort: str = "default") -> int:
    """The bytes that the codec makes of some."""
    import z4ai

    blob = z4ai.compress(data, dtype=dtype, shape=shape, effort=effort, threads=1)
    if z4ai.decompress(blob) != data:
        raise SystemExit(f"{dtype} {shape}: the decoded bytes differ from the original")
    return len(blob)


def origins(sets: Path) -> Iterator[Row]:
    from codec.origins import cases
    from workloads.sizes import tensor_of

    for case in cases(tensor_of(sets, "minilm")):
        if case.name in ORIGINS:
            elements = int(np.prod(case.shape))
            bits = 8 * frame(case.data, case.dtype, case.shape) / elements
            yield case.name, bits, 8 * len(case.data) / elements, ORIGINS[case.name]


def convolutions(sets: Path) -> Iterator[Row]:
    from codec.origins import one_tensor
    from codec.structured import bf16

    for name, goal in CONVOLUTIONS.items():
        values = one_tensor(sets / "crepe.fp32", name)
        bits = 8 * frame(bf16(values).tobytes(), "bf16", values.shape) / values.size
        yield f"crepe {name} {values.shape}", bits, 16, goal


def archived(path: Path, elements: int) -> tuple[float, float]:
    """Bits per element of a file as an archive, and as it is."""
    from z4ai import safetensors

    archive, again = PLACE / "archive.zstn", PLACE / "again"
    stored = safetensors.compress_file(path, archive, threads=1)["compressed_bytes"]
    safetensors.decompress_file(archive, again)
    if again.read_bytes() != path.read_bytes():
        raise SystemExit(f"{path.name}: what was restored is not what was stored")
    again.unlink()
    return 8 * stored / elements, 8 * path.stat().st_size / elements


def matrices(sets: Path) -> dict[str, np.ndarray]:
    """The matrices of a real model whose rows are whole blocks of any type."""
    from codec.origins import one_tensor

    source = sets / "minilm.fp32"
    names = [line.split("\t")[3] for line in Path(f"{source}.tsv").read_text().splitlines()]
    found = {name: one_tensor(source, name) for name in names if "intermediate.dense.weight" in name}
    return {name: values.reshape(-1, 256) for name, values in found.items()}


def blocks(sets: Path) -> Iterator[Row]:
    import gguf

    from codec.blocks import quantize

    weights = matrices(sets)
    elements = sum(values.size for values in weights.values())
    for kind, goal in BLOCKS.items():
        path = PLACE / f"{kind}.gguf"
        writer = gguf.GGUFWriter(path, "bert")
        for name, values in weights.items():
            writer.add_tensor(name, quantize(values, kind), raw_dtype=gguf.GGMLQuantizationType[kind.upper()])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        yield (f"GGUF {kind.upper()}", *archived(path, elements), goal)


def beside_each_other(sets: Path) -> Iterator[Row]:
    """Tensors of one file that tell about each other: both together, by element."""
    import torch
    from safetensors.torch import save_file

    weights = {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in matrices(sets).items()}
    elements = sum(values.numel() for values in weights.values())
    random = torch.Generator().manual_seed(3)
    average = {}
    for name, values in weights.items():
        drift = 0.01 * values.std() * torch.randn(values.shape, generator=random)
        average[f"ema.{name}"] = values + drift
    pairs: dict[str, tuple[dict[str, torch.Tensor], float]] = {
        "fp32 master beside bf16": ({f"half.{name}": values.bfloat16() for name, values in weights.items()}, 26.5),
        "average of 0.01 σ beside fp32": (average, 50.4),
    }
    for what, (others, goal) in pairs.items():
        path = PLACE / "pair.safetensors"
        save_file(weights | others, path)
        yield (what, *archived(path, elements), goal)


#: Runs where bitsandbytes is installed: a folder of arrays, whose levels are put beside them.
QUANTISE = """
import sys, pathlib, numpy, torch
from bitsandbytes.functional import create_dynamic_map, quantize_blockwise
for source in pathlib.Path(sys.argv[1]).glob("*.npy"):
    code = create_dynamic_map(signed=source.name.startswith("exp_avg-"))
    levels, _ = quantize_blockwise(torch.from_numpy(numpy.load(source)), code=code, blocksize=256)
    levels.numpy().tofile(source.with_suffix(".u8"))
"""


def eight_bit_states(sets: Path) -> Iterator[Row]:
    """Adam's moments of a real run, as bitsandbytes keeps them."""
    from workloads.delta import prepare as train
    from workloads.derived import TOOLS

    states = next(state for state, _ in train() if state.path.stem.endswith("-50-optimizer") and state.dtype == "fp32")
    folder = PLACE / "moments"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shapes: dict[str, list[tuple[Path, tuple[int, ...]]]] = {moment: [] for moment in EIGHT_BITS}
    for place, line in enumerate(Path(f"{states.path}.tsv").read_text().splitlines()):
        offset, length, sizes, name = line.split("\t")
        shape = tuple(int(size) for size in sizes.split(",") if size)
        moment = name.rpartition(".")[2]
        if len(shape) < 2:
            continue
        path = folder / f"{moment}-{place}.npy"
        values = np.fromfile(states.path, np.float32, count=int(length) // 4, offset=int(offset))
        np.save(path, values.reshape(shape))
        shapes[moment].append((path.with_suffix(".u8"), shape))
    subprocess.run([str(TOOLS.python()), "-c", QUANTISE, str(folder)], check=True, stderr=subprocess.DEVNULL)
    for moment, goal in EIGHT_BITS.items():
        total = sum(frame(path.read_bytes(), "uint8", shape) for path, shape in shapes[moment])
        elements = sum(int(np.prod(shape)) for _, shape in shapes[moment])
        yield f"8-bit Adam, {moment}", 8 * total / elements, 8, goal


def in_half(source: Path, target: Path) -> None:
    """The floats of a model file as fp16."""
    import ztensor

    from codec.structured import _store

    reader = ztensor.open(source)
    arrays = [(name, reader.read_numpy(name)) for name in reader]
    floats = [(name, values.astype(np.float16)) for name, values in arrays if values.dtype == np.float32]
    _store(target, [(name, values, values.tobytes()) for name, values in floats])


def fast(sessions: Sessions, sets: Path, report: Report) -> Table:
    """The fast effort beside ZipNN, fp16."""
    table = Table("Fast, fp16, bits per element", ["set", "z4ai fast", "ZipNN", "ours larger by %"])
    sizes: dict[str, dict[str, int]] = {}
    folder = PLACE / "fast"
    folder.mkdir(exist_ok=True)
    for name in FAST:
        if name in MORE_SETS:
            in_half(MODELS / MORE_SETS[name], folder / name)
        else:
            shutil.copy(sets / name, folder)
            shutil.copy(sets / f"{name}.tsv", folder)
    for peer, effort in (("z4ai_here", "fast"), ("zipnn", "default")):
        session = sessions.get(peer)
        if session is None:
            return table
        arguments = {"folder": str(folder), "effort": effort, "threads": 1, "granularity": "tensors"}
        sizes[peer] = session.call("sizes", "measure", **arguments)["sizes"]
    for name in FAST:
        elements = (folder / name).stat().st_size // 2
        ours, theirs = (sizes[peer][name] for peer in ("z4ai_here", "zipnn"))
        share = 100 * (ours / theirs - 1)
        table.rows.append([name, f"{8 * ours / elements:.3f}", f"{8 * theirs / elements:.3f}", f"{share:.2f}"])
        target = Target(f"{name}: fast at most 0.3 % larger than ZipNN", 1.0, FAST_SLACK * theirs / ours)
        report.targets.append(target)
    return table
