"""Metadata is read and changed without touching tensors, as the formats' own libraries see it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file as load_safetensors
from safetensors.numpy import save_file as save_safetensors

import ztensor
from ztensor.numpy import save_file

WEIGHTS = {"weight": np.arange(600, dtype=np.float32).reshape(20, 30), "bias": np.ones(7, np.float16)}


def run(*arguments: object, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ztensor", "meta", *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def safetensors_file(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_safetensors(WEIGHTS, path, metadata={"format": "pt"})
    return path


@pytest.fixture
def gguf_file(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(4096)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["a", "b", "c"])
    writer.add_bool("general.test", True)
    for name, array in WEIGHTS.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gguf_tensors(path: Path) -> dict[str, str]:
    return {tensor.name: hashlib.sha256(tensor.data.tobytes()).hexdigest() for tensor in gguf.GGUFReader(path).tensors}


def test_safetensors(safetensors_file: Path) -> None:
    before = load_safetensors(safetensors_file)
    long = "x" * 10_000
    ztensor.write_metadata(safetensors_file, {"license": "mit", "steps": 500, "long": long})
    with safe_open(safetensors_file, "np") as file:
        assert file.metadata() == {"format": "pt", "license": "mit", "steps": "500", "long": long}
    ztensor.write_metadata(safetensors_file, remove=["format", "long"])
    assert ztensor.read_metadata(safetensors_file) == {"license": "mit", "steps": "500"}
    after = load_safetensors(safetensors_file)
    assert all(np.array_equal(before[name], after[name]) for name in before) and before.keys() == after.keys()


def test_gguf_keeps_types_and_tensors(gguf_file: Path) -> None:
    tensors = gguf_tensors(gguf_file)
    ztensor.write_metadata(
        gguf_file,
        {
            "llama.context_length": 8192,
            "tokenizer.chat_template": "{{ messages }}\n",
            "general.tags": ["one", "two"],
            "llama.new": -3,
            "llama.scale": 0.5,
            "general.test": False,
            "llama.wide": 7,
        },
        types={"llama.wide": "u64"},
        remove=["tokenizer.ggml.model"],
    )
    reader = gguf.GGUFReader(gguf_file)
    field = reader.fields["llama.context_length"]
    assert field.contents() == 8192 and field.types == [gguf.GGUFValueType.UINT32]
    assert reader.fields["tokenizer.chat_template"].contents() == "{{ messages }}\n"
    assert reader.fields["general.tags"].contents() == ["one", "two"]
    assert reader.fields["llama.new"].types == [gguf.GGUFValueType.INT32]
    assert reader.fields["llama.scale"].types == [gguf.GGUFValueType.FLOAT32]
    assert reader.fields["llama.wide"].types == [gguf.GGUFValueType.UINT64]
    assert reader.fields["general.test"].contents() is False
    assert reader.fields["tokenizer.ggml.tokens"].contents() == ["a", "b", "c"]
    assert "tokenizer.ggml.model" not in reader.fields
    assert gguf_tensors(gguf_file) == tensors


def test_gguf_refuses_what_a_type_cannot_hold(gguf_file: Path) -> None:
    before = gguf_file.read_bytes()
    for change in (
        {"llama.context_length": "long"},
        {"llama.context_length": -1},
        {"general.alignment": 64},
        {"x": {"a": 1}},
        {"x": [1, "a"]},
    ):
        with pytest.raises(ztensor.ZTensorError):
            ztensor.write_metadata(gguf_file, change)
    with pytest.raises(KeyError):
        ztensor.write_metadata(gguf_file, remove=["nothing"])
    assert gguf_file.read_bytes() == before


def test_zt(tmp_path: Path) -> None:
    path = tmp_path / "model.zt"
    save_file(WEIGHTS, path, metadata={"a": "1"})
    ztensor.write_metadata(path, {"steps": 500, "nested": {"x": [1, 2.5, None, True]}}, remove=["a"])
    assert ztensor.read_metadata(path) == {"steps": 500, "nested": {"x": [1, 2.5, None, True]}}
    reader = ztensor.open(path)
    assert all(np.array_equal(reader.read_numpy(name), WEIGHTS[name]) for name in WEIGHTS)


def test_other_formats_and_archives_are_refused(tmp_path: Path, safetensors_file: Path) -> None:
    array = tmp_path / "array.npy"
    np.save(array, np.ones(3))
    with pytest.raises(ztensor.ZTensorError, match=r"\.zt, \.safetensors and \.gguf"):
        ztensor.write_metadata(array, {"a": 1})
    archive = tmp_path / "model.zstn"
    subprocess.run([sys.executable, "-m", "ztensor", "archive", safetensors_file, "-o", archive], check=True)
    with pytest.raises(ztensor.ZTensorError, match="archive"):
        ztensor.write_metadata(archive, {"a": 1})


def test_at_the_shell(tmp_path: Path, gguf_file: Path, safetensors_file: Path) -> None:
    template = tmp_path / "template.jinja"
    template.write_text("{% for m in messages %}\n{{ m }}\n{% endfor %}")
    run(
        "set",
        gguf_file,
        f"tokenizer.chat_template=@{template}",
        'general.tags=["a","b"]',
        "llama.context_length=16384",
        "llama.count:u64=7",
    )
    assert run("get", gguf_file, "tokenizer.chat_template") == template.read_text()
    fields = gguf.GGUFReader(gguf_file).fields
    assert fields["general.tags"].contents() == ["a", "b"] and fields["llama.context_length"].contents() == 16384
    assert fields["llama.count"].types == [gguf.GGUFValueType.UINT64]
    assert "tokenizer.ggml.tokens" in run("get", gguf_file)
    run("set", safetensors_file, "a=1", "format=")
    run("remove", safetensors_file, "format")
    assert run("get", safetensors_file, "a") == "1"
    assert "no key" in run("get", safetensors_file, "format", code=2)
    assert "key=value" in run("set", safetensors_file, "nothing", code=2)
