"""Every line of code in the documents that define the API, run as it is written there. Each test first makes the files and names
that its sample takes for granted.
"""

from __future__ import annotations

import inspect
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import z4ai
import ztensor
import ztensor.numpy
import ztensor.torch

PROJECT = Path(__file__).resolve().parents[2]
WEIGHTS = {"layer1.weight": (8, 4), "weights": (1024, 768), "weight": (1024, 768), "bias": (768,)}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model in it, to run a sample in."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    model = {name: torch.randn(shape) for name, shape in WEIGHTS.items()}
    ztensor.torch.save_file(model, "model.zt")
    safetensors.torch.save_file(model, "model.safetensors")
    return tmp_path


def run(sample: str, **given: Any) -> dict[str, Any]:
    """Runs a sample with the names it takes for granted; returns all names it leaves."""
    names = dict(given)
    exec(compile(inspect.cleandoc(sample), "sample", "exec"), names)
    return names


def on_this_machine(sample: str) -> str:
    """A sample for an accelerator, where there is none."""
    found = {'"cuda:0"': torch.cuda.is_available(), '"mps"': torch.backends.mps.is_available()}
    for device in (device for device, there in found.items() if not there):
        sample = sample.replace(device, '"cpu"')
    return sample


def test_migrating_from_safetensors() -> None:
    theirs = run("""
        # Before
        from safetensors.torch import save_file, load_file
    """)
    ours = run("""
        # After — one-line change
        from ztensor.torch import save_file, load_file
    """)
    tensors = {"weight": torch.randn(3, 4), "bias": torch.zeros(3)}
    for left in (theirs, ours):
        left["save_file"](tensors, "migrated.safetensors", metadata={"format": "pt"})
        loaded = left["load_file"]("migrated.safetensors")
        assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())
    run("""
        from ztensor.torch import save_file, load_file # PyTorch tensors
        from ztensor.numpy import save_file, load_file # NumPy arrays
    """)


def test_save_file() -> None:
    left = run("""
        import torch
        from ztensor.torch import save_file
        tensors = {"weight": torch.randn(1024, 768), "bias": torch.zeros(768)}
        save_file(tensors, "model.zt") # no compression
        save_file(tensors, "model.zt", compression=True) # zstd level 3
        save_file(tensors, "model.zt", compression=10) # zstd level 10
    """)
    loaded = ztensor.torch.load_file("model.zt")
    assert torch.equal(loaded["weight"], left["tensors"]["weight"])


def test_load_file() -> None:
    left = run("""
        from ztensor.torch import load_file
        loaded = load_file("model.zt") # zero-copy (default)
        loaded = load_file("model.safetensors") # any format
    """)
    assert left["loaded"]["weight"].shape == (1024, 768)
    for sample in (
        'loaded = load_file("model.zt", device="cuda:0") # load to GPU',
        'loaded = load_file("model.zt", copy=True) # independent copies',
    ):
        left = run(on_this_machine(sample), load_file=left["load_file"])
        assert left["loaded"]["weight"].shape == (1024, 768)


def test_bytes() -> None:
    left = run(
        """
        # PyTorch
        from ztensor.torch import save, load
        data = save({"x": torch.zeros(10)})
        loaded = load(data)
        """,
        torch=torch,
    )
    assert left["loaded"]["x"].tolist() == [0.0] * 10
    left = run(
        """
        # NumPy
        from ztensor.numpy import save, load
        data = save({"x": np.zeros(10, dtype=np.float32)})
        loaded = load(data)
        """,
        np=np,
    )
    assert left["loaded"]["x"].dtype == np.float32


def test_tensor() -> None:
    left = run(
        """
        import numpy as np
        import ztensor
        # Dense tensor — shape and dtype inferred from the "data" component
        t = ztensor.Tensor({"data": np.ones((3, 4), dtype=np.float32)})
        arr = t.numpy() # -> np.ndarray
        tensor = t.torch(device="cpu") # -> torch.Tensor
        # Sparse CSR — explicit shape required
        t = ztensor.Tensor(
            {"values": values, "indices": indices, "indptr": indptr},
            shape=[4096, 4096], dtype="float32", format="sparse_csr"
        )
        """,
        values=np.ones(2, dtype=np.float32),
        indices=np.array([0, 5]),
        indptr=np.zeros(4097, dtype=np.int64),
    )
    assert left["arr"].shape == (3, 4)
    assert left["tensor"].shape == (3, 4)
    assert left["t"].shape == [4096, 4096]


def test_reader() -> None:
    left = run("""
        from ztensor import Reader
        reader = Reader("model.zt")
        tensor = reader["layer1.weight"] # ztensor.Tensor, zero-copy
        exists = "bias" in reader # membership test
        count = len(reader) # number of tensors
        names = list(reader) # iterate tensor names
        names = reader.keys()
        meta = reader.metadata("weights")
        print(meta.shape, meta.dtype) # [1024, 768] float32
        metas = reader.metadata(["weight", "bias"])
    """)
    assert isinstance(left["tensor"], ztensor.Tensor)
    assert left["exists"] is True
    assert left["count"] == len(WEIGHTS)
    assert left["names"] == list(WEIGHTS)
    assert (left["meta"].shape, left["meta"].dtype) == ([1024, 768], "float32")
    assert [meta.name for meta in left["metas"]] == ["weight", "bias"]


def test_reading() -> None:
    reader = ztensor.Reader("model.zt")
    left = run(
        """
        t = reader.read("weights") # -> ztensor.Tensor
        d = reader.read(["weight", "bias"]) # -> dict[str, ztensor.Tensor]
        t = reader.read("weights", copy=True) # independent copy
        """,
        reader=reader,
    )
    assert isinstance(left["t"], ztensor.Tensor)
    assert all(isinstance(value, ztensor.Tensor) for value in left["d"].values())
    left = run(
        """
        arr = reader.read_numpy("weights") # -> np.ndarray
        d = reader.read_numpy(["weight", "bias"]) # -> dict[str, np.ndarray]
        arr = reader.read_numpy("weights", copy=True) # independent copy
        """,
        reader=reader,
    )
    assert isinstance(left["arr"], np.ndarray)
    assert all(isinstance(value, np.ndarray) for value in left["d"].values())
    left = run(
        on_this_machine("""
        t = reader.read_torch("weights") # -> torch.Tensor
        d = reader.read_torch(["weight", "bias"]) # -> dict[str, torch.Tensor]
        t = reader.read_torch("weights", device="cuda:0") # load to GPU
        t = reader.read_torch("weights", copy=True) # independent copy
        """),
        reader=reader,
    )
    assert isinstance(left["t"], torch.Tensor)
    assert list(left["d"]) == ["weight", "bias"]


def test_read_into() -> None:
    ztensor.torch.save_file({"layer.0.weight": torch.randn(1024, 768), "layer.0.bias": torch.randn(768)}, "layers.zt")
    left = run(
        on_this_machine("""
        dst = torch.empty(1024, 768, dtype=torch.float32, device="mps")
        reader.read_into("layer.0.weight", dst)
        reader.read_into({
            "layer.0.weight": weight_view,
            "layer.0.bias": bias_view,
        })
        """),
        torch=torch,
        reader=ztensor.Reader("layers.zt"),
        weight_view=torch.empty(1024, 768),
        bias_view=np.empty(768, dtype=np.float32),
    )
    assert torch.equal(left["dst"].cpu(), left["weight_view"])
    assert torch.equal(left["dst"].cpu(), left["reader"].read_torch("layer.0.weight"))
    np.testing.assert_array_equal(left["bias_view"], left["reader"].read_numpy("layer.0.bias"))


@pytest.mark.parametrize("compression", [False, True])
def test_the_arena_pattern(compression: bool) -> None:
    layers = {f"layer.{number}.{part}": torch.randn(16, 8) for number in range(3) for part in "ab"}
    ztensor.torch.save_file(layers, "model.zt", compression=compression)
    seen = {}
    run(
        on_this_machine("""
        reader = ztensor.Reader("model.zt")
        for layer_idx in range(num_layers):
            arena = torch.empty(layer_bytes, dtype=torch.uint8, device="mps")
            offset = 0
            views = {}
            for name in layer_tensor_names(layer_idx):
                meta = reader.metadata(name)
                nbytes = meta.components["data"]["length"]
                view = arena[offset:offset+nbytes].view(torch_dtype).reshape(meta.shape)
                views[name] = view
                offset += nbytes
            reader.read_into(views)
            seen.update(views)
        """),
        ztensor=ztensor,
        torch=torch,
        num_layers=3,
        layer_bytes=2 * 16 * 8 * 4,
        layer_tensor_names=lambda layer: [f"layer.{layer}.a", f"layer.{layer}.b"],
        torch_dtype=torch.float32,
        seen=seen,
    )
    assert all(torch.equal(seen[name].cpu(), tensor) for name, tensor in layers.items())


def test_context_managers() -> None:
    left = run(
        """
        from ztensor import Reader
        with Reader("model.zt") as r:
            weights = r["weights"]
        from ztensor import Writer
        with Writer("output.zt") as w:
            w.write_numpy("weights", weights)
            w.write_numpy("bias", bias)
            # finish() called automatically
        """,
        bias=np.zeros(3),
    )
    assert left["weights"].shape == [1024, 768]
    assert ztensor.open("output.zt").keys() == ["weights", "bias"]


WRITES = {
    "tensor": """
        t = ztensor.Tensor({"data": np.ones((3, 4), dtype=np.float32)})
        w.write("weights", t)
    """,
    "array": """
        w.write_numpy("weights", np_array)
        w.write_numpy("compressed", np_array, compress=True)
        w.write_numpy("verified", np_array, checksum="crc32c")
    """,
    "torch": """
        w.write_torch("weights", torch_tensor)
        w.write_torch("compressed", torch_tensor, compress=True)
    """,
    "alias": 'w.add("weights", np_array)',
}


@pytest.mark.parametrize("sample", WRITES.values(), ids=WRITES.keys())
def test_writer(sample: str) -> None:
    array = np.arange(6.0).reshape(2, 3)
    writer = ztensor.Writer("output.zt")
    run(sample, w=writer, ztensor=ztensor, np=np, np_array=array, torch_tensor=torch.ones(2, 3, dtype=torch.bfloat16))
    assert writer.finish() == Path("output.zt").stat().st_size
    assert ztensor.open("output.zt").read_numpy("weights").size in (6, 12)


def test_appending() -> None:
    left = run(
        """
        w = Writer.append("model.zt")
        w.write_numpy("extra_layer", new_weights)
        w.finish()
        """,
        Writer=ztensor.Writer,
        new_weights=np.zeros(4),
    )
    assert ztensor.open("model.zt").keys() == [*WEIGHTS, "extra_layer"]
    # "Duplicate tensor names raise an error."
    with ztensor.Writer.append("model.zt") as writer, pytest.raises(ztensor.ZTensorError, match="extra_layer"):
        writer.write_numpy("extra_layer", left["new_weights"])


def test_models() -> None:
    left = run("""
        import torch
        from ztensor.torch import save_model
        model = torch.nn.Linear(10, 5)
        save_model(model, "model.zt")
        saved = model
        from ztensor.torch import load_model
        model = torch.nn.Linear(10, 5)
        missing, unexpected = load_model(model, "model.zt")
    """)
    assert (left["missing"], left["unexpected"]) == ([], [])
    assert torch.equal(left["model"].weight, left["saved"].weight)


def test_removing_and_replacing() -> None:
    with ztensor.Writer.append("model.zt") as writer:
        writer.write_numpy("unused_layer", np.zeros(3))
        writer.write_numpy("old_bias", np.zeros(3))
    run("""
        import ztensor
        ztensor.remove_tensors("model.zt", "trimmed.zt", ["unused_layer", "old_bias"])
        import numpy as np
        import ztensor
        # Replace weights in-place (much faster than rewriting the whole file)
        new_weights = np.zeros((1024, 768), dtype=np.float32)
        ztensor.replace_tensor("model.zt", "weights", new_weights)
    """)
    assert ztensor.open("trimmed.zt").keys() == list(WEIGHTS)
    assert not ztensor.open("model.zt").read_numpy("weights").any()


def test_quick_start() -> None:
    run("""
        from ztensor.numpy import load_file, save_file
        # Read any format through one API
        tensors = load_file("model.safetensors")  # or .pt, .gguf, .npz, .onnx, .h5
        save_file(tensors, "model.zt")
    """)
    assert ztensor.open("model.zt").format == "zt"


def defaults(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}


def test_signatures_and_defaults_are_those_of_the_documents() -> None:
    loading = {"device": "cpu", "copy": False}
    storing = {"compress": None, "checksum": "none"}
    for function, documented in {
        ztensor.torch.save_file: {"metadata": None, "compression": False},
        ztensor.numpy.save_file: {"metadata": None, "compression": False},
        ztensor.torch.load_file: loading,
        ztensor.numpy.load_file: {"copy": False},
        ztensor.torch.save_model: {"metadata": None, "force_contiguous": True},
        ztensor.torch.load_model: {"strict": True} | loading,
        ztensor.Reader.read: {"copy": False},
        ztensor.Reader.read_numpy: {"copy": False},
        ztensor.Reader.read_torch: {"copy": False, "device": "cpu"},
        ztensor.Writer.write: storing,
        ztensor.Writer.write_numpy: storing,
        ztensor.Writer.write_torch: storing,
        ztensor.Writer.add: storing,
    }.items():
        found = defaults(function)
        # In the documents' order; what there is beyond them comes behind, by keyword.
        assert dict(list(found.items())[: len(documented)]) == documented, function
        extra = [inspect.signature(function).parameters[name].kind for name in list(found)[len(documented) :]]
        assert set(extra) <= {inspect.Parameter.KEYWORD_ONLY}, function
    for owner, names in {
        ztensor.Reader: "keys metadata read read_numpy read_torch read_into format",
        ztensor.Writer: "write write_numpy write_torch add finish append",
        ztensor.Tensor: "shape dtype type format components attributes numpy torch",
        ztensor.TensorMetadata: "name shape dtype type format components",
        ztensor: "Reader Writer Tensor TensorMetadata ZTensorError open remove_tensors replace_tensor",
        z4ai: "compress decompress compress_array decompress_array compress_ndarray decompress_ndarray peek_is_z4ai dtype_width",
    }.items():
        for name in names.split():
            assert hasattr(owner, name), (owner, name)
    assert issubclass(ztensor.ZTensorError, Exception)


def test_codec_buffers() -> None:
    buffer = np.random.default_rng(0).standard_normal(10_000).astype(np.float32).tobytes()
    left = run(
        """
        import z4ai
        blob = z4ai.compress(buffer, dtype="fp32")
        data = z4ai.decompress(blob) # byte-identical to `buffer`
        # Decode into a pre-allocated buffer (no extra allocation):
        out = bytearray(len(data))
        z4ai.decompress(blob, out=out)
        """,
        buffer=buffer,
    )
    assert left["data"] == buffer
    assert left["out"] == buffer
    run(
        """
        import z4ai
        blob = z4ai.compress(weights_bytes) # smaller, self-describing
        data = z4ai.decompress(blob) # byte-identical original
        assert data == weights_bytes
        """,
        weights_bytes=buffer,
    )


def test_codec_deltas() -> None:
    before = torch.randn(40_000).bfloat16()
    after = (before + 1e-3).view(torch.int16).numpy().tobytes()
    reference = before.view(torch.int16).numpy().tobytes()
    left = run(
        """
        import z4ai
        blob = z4ai.compress_delta(current_ckpt_bytes, reference=prev_ckpt_bytes, dtype="bf16")
        restored = z4ai.decompress_delta(blob, reference=prev_ckpt_bytes)
        assert bytes(restored) == current_ckpt_bytes # lossless
        """,
        current_ckpt_bytes=after,
        prev_ckpt_bytes=reference,
    )
    assert len(left["blob"]) < len(after)
    left = run(
        """
        # store checkpoint N as the bit-exact delta from checkpoint N-1
        delta = z4ai.compress_delta(step_2000, reference=step_1000)
        restored = z4ai.decompress_delta(delta, reference=step_1000) # exact == step_2000
        """,
        z4ai=z4ai,
        step_1000=reference,
        step_2000=after,
    )
    assert left["restored"] == after


def test_codec_arrays() -> None:
    run("""
        import numpy as np, z4ai
        w = np.random.randn(1024, 1024).astype(np.float16)
        blob = z4ai.compress_array(w)
        back = z4ai.decompress_array(blob)
        assert np.array_equal(w, back) and back.dtype == w.dtype and back.shape == w.shape
    """)


def test_codec_efforts() -> None:
    buffer = torch.randn(40_000).bfloat16().view(torch.int16).numpy().tobytes()
    left = run(
        """
        import z4ai
        # fastest to decode (serve / load-often paths)
        fast = blob = z4ai.compress(buffer, dtype="bf16", effort="fast")
        # balanced default
        default = blob = z4ai.compress(buffer, dtype="bf16")
        # smallest file (offline encode; for the artifact you upload)
        smallest = blob = z4ai.compress(buffer, dtype="bf16", effort="max")
        """,
        buffer=buffer,
    )
    assert all(z4ai.decompress(left[name]) == buffer for name in ("fast", "default", "smallest"))
    assert len(left["smallest"]) <= len(left["default"]) < len(buffer)


def test_codec_chunked() -> None:
    weights = torch.randn(40_000).bfloat16().view(torch.int16).numpy().tobytes()
    left = run(
        """
        import z4ai.chunked as ck
        blob = ck.compress(weights, dtype="bf16")
        weights_back = ck.decompress(blob) # byte-exact, multithreaded
        """,
        weights=weights,
    )
    assert left["weights_back"] == weights


def test_model_deltas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    base = {"w": torch.randn(300, 200), "b": torch.randn(200)}
    tuned = {"w": base["w"] * 1.0001, "b": base["b"], "new": torch.randn(7)}
    safetensors.torch.save_file(base, "base.safetensors")
    safetensors.torch.save_file(tuned, "finetuned.safetensors")
    run(
        """
        from z4ai import model_delta
        # in memory (.safetensors bytes)
        blob = model_delta.compress(finetuned_bytes, base_bytes)
        restored = model_delta.decompress(blob, base_bytes)
        assert restored == finetuned_bytes # lossless
        # or straight from / to files
        stats = model_delta.compress_file("finetuned.safetensors", "base.safetensors",
        "finetuned.z4dm")
        print(f"{stats['ratio']:.1f}x smaller")
        """,
        finetuned_bytes=Path("finetuned.safetensors").read_bytes(),
        base_bytes=Path("base.safetensors").read_bytes(),
    )


def test_archives_with_random_access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weight = torch.randn(64, 32)
    safetensors.torch.save_file({"model.embed_tokens.weight": weight}, "model.safetensors")
    original = Path("model.safetensors").read_bytes()
    left = run("""
        from z4ai.safetensors import compress_file, decompress_file, ZstnReader
        stats = compress_file("model.safetensors", "model.zstn")
        print(f"{stats['saved_pct']:.0f}% smaller ({stats['ratio']:.2f}x)")
        # Restore a byte-identical .safetensors file:
        decompress_file("model.zstn", "model.safetensors")
        # Or read just the tensors you need, lazily:
        with ZstnReader.open("model.zstn") as r:
            print(r.names()) # list tensors, no decode
            w = r.read_numpy("model.embed_tokens.weight") # decode only this tensor
    """)
    assert Path("model.safetensors").read_bytes() == original
    assert np.array_equal(left["w"], weight.numpy())


def test_state_dicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(
        """
        import z4ai
        stats = z4ai.save_file(model.state_dict(), "model.z4ai.safetensors")
        print(f"{stats['saved_pct']:.0f}% smaller")
        state = z4ai.load_file("model.z4ai.safetensors") # -> {name: torch.Tensor}
        model.load_state_dict(state)
        """,
        model=torch.nn.Linear(64, 64),
    )


@pytest.fixture
def disabled_afterwards() -> Iterator[None]:
    yield
    z4ai.disable_hf()


@pytest.mark.usefixtures("disabled_afterwards")
def test_from_pretrained() -> None:
    import tokenizers
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=8, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4
    )
    saved = transformers.LlamaForCausalLM(config)
    z4ai.save_pretrained(saved, "your-org/model")
    words = tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?")
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(words)).save_pretrained("your-org/model")
    left = run("""
        from z4ai import enable_hf
        enable_hf() # before importing transformers
        from transformers import AutoModelForCausalLM, AutoTokenizer
        model = AutoModelForCausalLM.from_pretrained("your-org/model", variant="z4ai")
        tok = AutoTokenizer.from_pretrained("your-org/model")
    """)
    assert torch.equal(left["model"].lm_head.weight, saved.lm_head.weight)
    assert left["tok"]("a")["input_ids"] == [0]


def test_at_the_shell() -> None:
    weights = torch.randn(40_000).bfloat16().view(torch.int16).numpy().tobytes()
    Path("weights.bin").write_bytes(weights)
    sample = """
        z4ai compress weights.bin -o weights.z4ai
        z4ai decompress weights.z4ai -o weights.bin
        z4ai info weights.z4ai # ratio + per-plane breakdown
    """
    said = [
        subprocess.run([sys.executable, "-m", *shlex.split(line, comments=True)], capture_output=True, text=True)
        for line in sample.strip().splitlines()
    ]
    assert [done.returncode for done in said] == [0, 0, 0], said
    assert Path("weights.bin").read_bytes() == weights
    assert "1." in said[2].stdout and "Bytes by plane" in said[2].stdout


def test_benchmarks_are_called_as_documented() -> None:
    """They take minutes, so only their arguments are read here; benchmark/records holds what came of them."""
    import bench

    for line in """
        python benchmark/bench.py run --dist llama-1b --runs 5 --warmup 2
        python benchmark/bench.py run --size 512 --dist large --runs 5 --warmup 2
        python benchmark/bench.py run --size 512 --dist mixed --runs 5 --warmup 2
        python benchmark/bench.py run --size 512 --dist small --runs 5 --warmup 2
        python benchmark/bench.py sweep --runs 5 --warmup 2
    """.strip().splitlines():
        _, script, *arguments = shlex.split(line)
        assert (PROJECT / script).is_file()
        options = bench.parser().parse_args(arguments)
        assert (options.runs, options.warmup) == (5, 2)


def test_extras_that_the_documents_name() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "ztensor"
    # pip install ztensor[bfloat16]; pip install "z4ai[maxratio]"; pip install "z4ai[hf]"
    assert {"bfloat16", "maxratio", "hf"} <= project["optional-dependencies"].keys()
    assert {"ztensor", "z4ai"} <= project["scripts"].keys()
