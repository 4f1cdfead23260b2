"""Files that real tools make of a model: run by the interpreter of an environment that has them, for `bench.py derived`.

    python derived_tools.py PLACE MODEL TEXTS

It reads bf16, parent-1, parent-2 and wide.safetensors in PLACE and writes the files beside them. bitsandbytes, compressed-tensors,
mergekit and peft are the tools' own code. GPTQ and AWQ need a GPU: their layouts are written out below after the sources of AutoGPTQ
and AutoAWQ. So is GPTQ's algorithm; it quantises the first layers of MODEL, all-MiniLM-L6-v2, which the texts in TEXTS go through.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

Tensors = dict[str, torch.Tensor]
#: The number in each slot of AWQ's words.
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
GROUP = 128


def bitsandbytes_files(weights: Tensors) -> dict[str, Tensors]:
    from bitsandbytes import functional

    files: dict[str, Tensors] = {}
    for title, nested in (("NF4", False), ("NF4, double", True)):
        found: Tensors = {}
        for name, tensor in weights.items():
            found[name], state = functional.quantize_4bit(
                tensor, quant_type="nf4", blocksize=64, compress_statistics=nested
            )
            found |= {f"{name}.{key}": value for key, value in state.as_dict(packed=True).items()}
        files[title] = found
    found = {}
    for name, tensor in weights.items():
        levels, scales, _ = torch.ops.bitsandbytes.int8_vectorwise_quant(tensor.half(), 0.0)
        found[name], found[f"{name.removesuffix('weight')}SCB"] = levels, scales
    files["int8, LLM.int8"] = found
    return files


def compressed_files(weights: Tensors) -> dict[str, Tensors]:
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    int4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": GROUP}
    fp4 = {"num_bits": 4, "type": "float", "symmetric": True}
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "int4, symmetric": ("pack-quantized", int4 | {"symmetric": True}),
        "int4, zero points": ("pack-quantized", int4 | {"symmetric": False}),
        "int8, packed": ("pack-quantized", {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"}),
        "NVFP4": (
            "nvfp4-pack-quantized",
            fp4 | {"strategy": "tensor_group", "group_size": 16, "scale_dtype": torch.float8_e4m3fn},
        ),
        "MXFP4, packed": (
            "mxfp4-pack-quantized",
            fp4 | {"strategy": "group", "group_size": 32, "scale_dtype": torch.uint8},
        ),
    }
    files = {}
    for title, (form, arguments) in kinds.items():
        settings = QuantizationArgs(**arguments)
        scheme = QuantizationScheme(targets=["Linear"], weights=settings)
        compressor = BaseCompressor.get_value_from_registry(form)
        found: Tensors = {}
        for name, tensor in weights.items():
            grouped = tensor.reshape(tensor.shape[0], -1, settings.group_size or tensor.shape[1])
            state = {"weight": tensor}
            shared = {}
            if title == "NVFP4":
                least, most = (of.float().reshape(1) for of in (tensor.amin(), tensor.amax()))
                shared["global_scale"] = state["weight_global_scale"] = generate_gparam(least, most)
            state["weight_scale"], state["weight_zero_point"] = calculate_qparams(
                grouped.amin(-1), grouped.amax(-1), settings, **shared
            )
            stem = name.removesuffix("weight")
            found |= {stem + key: value.contiguous() for key, value in compressor.compress(state, scheme).items()}
        files[title] = found
    return files


def words(levels: torch.Tensor, order: list[int] | None = None) -> torch.Tensor:
    """Eight levels of a row in a word of 32 bits."""
    eight = levels.numpy().astype(np.uint32).reshape(levels.shape[0], -1, 8)
    packed = np.zeros(eight.shape[:2], np.uint32)
    for slot in range(8):
        packed |= eight[:, :, order[slot] if order else slot] << np.uint32(4 * slot)
    return torch.from_numpy(packed.view(np.int32))


def in_gptq_layout(levels: torch.Tensor, scale: torch.Tensor, stem: str) -> Tensors:
    """Levels by rows of the weight, scales by row and group."""
    zeros = torch.full_like(scale, 7).T.contiguous()
    return {
        f"{stem}qweight": words(levels).T.contiguous(),
        f"{stem}scales": scale.T.contiguous().half(),
        f"{stem}qzeros": words(zeros),
        f"{stem}g_idx": (torch.arange(levels.shape[1]) // GROUP).int(),
    }


def gptq(weight: torch.Tensor, hessian: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """GPTQ without reordering: what a column loses is taken from later ones, as the inputs say."""
    rows, row = weight.shape
    hessian = hessian + torch.eye(row) * 0.01 * hessian.diagonal().mean()
    inverse = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(hessian)), upper=True)
    left, levels = weight.clone(), torch.zeros(rows, row)
    scales = torch.zeros(rows, row // GROUP)
    for start in range(0, row, GROUP):
        end = start + GROUP
        scale = scales[:, start // GROUP] = 2 * left[:, start:end].abs().amax(1) / 15
        lost = torch.zeros(rows, GROUP)
        for at in range(start, end):
            levels[:, at] = (torch.round(left[:, at] / scale) + 8).clamp(0, 15)
            lost[:, at - start] = (left[:, at] - (levels[:, at] - 8) * scale) / inverse[at, at]
            left[:, at:end] -= lost[:, at - start, None] * inverse[at, at:end]
        left[:, end:] -= lost @ inverse[start:end, end:]
    return levels, scales


def real_layers(model: Path, texts: Path) -> tuple[Tensors, Tensors]:
    """Weights of linear layers of a model, and what came in there while it read texts: the products of all pairs of inputs."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    bert = BertModel(BertConfig.from_pretrained(model)).eval()
    bert.load_state_dict(load_file(model / "model.safetensors"), strict=False)
    tokens = BertTokenizerFast(vocab_file=str(model / "vocab.txt"))
    text = " ".join(path.read_text() for path in sorted(texts.glob("*.md")))
    identifiers = tokens(text, return_tensors="pt").input_ids[0][: 64 * 128].reshape(-1, 128)
    hessians: Tensors = {}
    weights: Tensors = {}

    def watch(name: str) -> Any:
        def note(_: Any, inputs: tuple[torch.Tensor, ...], __: torch.Tensor) -> None:
            rows = inputs[0].reshape(-1, inputs[0].shape[-1])
            hessians[name] = hessians.get(name, 0) + rows.T @ rows / identifiers.numel()

        return note

    for name, layer in bert.named_modules():
        if isinstance(layer, torch.nn.Linear) and name.startswith(("encoder.layer.0.", "encoder.layer.1.")):
            weights[f"{name}.weight"] = layer.weight.bfloat16()
            layer.register_forward_hook(watch(f"{name}.weight"))
    for start in range(0, len(identifiers), 16):
        bert(identifiers[start : start + 16])
    return weights, hessians


def corrected_files(place: Path, model: Path, texts: Path) -> dict[str, Tensors]:
    weights, hessians = real_layers(model, texts)
    save_file(weights, place / "real.safetensors")
    found: Tensors = {}
    for name, tensor in weights.items():
        found |= in_gptq_layout(*gptq(tensor.float(), hessians[name]), name.removesuffix("weight"))
    return {"GPTQ": found}


def written_files(weights: Tensors) -> dict[str, Tensors]:
    nearest: Tensors = {}
    awq: Tensors = {}
    for name, tensor in weights.items():
        stem, (rows, row) = name.removesuffix("weight"), tensor.shape
        grouped = tensor.float().reshape(rows, -1, GROUP)
        scale = 2 * grouped.abs().amax(-1) / 15
        levels = (torch.round(grouped / scale[..., None]) + 8).clamp(0, 15).reshape(rows, row)
        nearest |= in_gptq_layout(levels, scale, stem)
        grouped = tensor.half().reshape(-1, GROUP)
        least, most = grouped.amin(1, keepdim=True), grouped.amax(1, keepdim=True)
        scale = (most - least).clamp(min=1e-5) / 15
        zeros = (-torch.round(least / scale)).clamp(0, 15)
        levels = (torch.round(grouped / scale) + zeros).clamp(0, 15).reshape(rows, row)
        awq |= {
            f"{stem}qweight": words(levels.T.contiguous(), AWQ_ORDER),
            f"{stem}scales": scale.reshape(rows, -1).T.contiguous(),
            f"{stem}qzeros": words(zeros.reshape(rows, -1).T.contiguous(), AWQ_ORDER),
        }
    return {"int4, nearest, GPTQ layout": nearest, "int4, nearest, AWQ layout": awq}


def merged_files(base: Tensors, parents: list[Tensors]) -> dict[str, Tensors]:
    from mergekit.merge_methods import registry
    from mergekit.merge_methods.base import TensorGroup

    ties = registry.get("ties")
    shared = {"int8_mask": False, "rescale": False, "lambda": 1.0}
    files = {}
    for title, normalise, density, weight in (
        ("TIES", True, (0.5, 0.5), (0.6, 0.4)),
        ("TIES, other weights", False, (0.7, 0.3), (0.8, 0.5)),
    ):
        parameters = shared | {
            "normalize": normalise,
            "density": dict(zip((1, 2), density, strict=True)),
            "weight": dict(zip((1, 2), weight, strict=True)),
        }
        files[title] = {
            name: ties.merge_group(
                TensorGroup.from_tensors([base[name], *(parent[name] for parent in parents)], base_index=0),
                **parameters,
            )
            for name in base
        }
    return files


def adapted_files(wide: torch.Tensor) -> dict[str, Tensors]:
    """An adapter merged by peft: its change is 2 % of the weights."""
    import peft

    files = {}
    for rank in (16, 64):
        model = torch.nn.Sequential(torch.nn.Linear(wide.shape[1], wide.shape[0], bias=False, dtype=wide.dtype))
        model[0].weight.data.copy_(wide)
        adapted = peft.get_peft_model(model, peft.LoraConfig(r=rank, lora_alpha=rank, target_modules=["0"]))
        layer = adapted.base_model.model[0]
        random = torch.Generator().manual_seed(3)
        down, up = layer.lora_A["default"].weight, layer.lora_B["default"].weight
        down.data.copy_(torch.randn(down.shape, generator=random))
        up.data.copy_(torch.randn(up.shape, generator=random))
        up.data *= 0.02 * wide.float().std() / (up.data.float() @ down.data.float()).std()
        merged = adapted.merge_and_unload()
        files[f"LoRA merged, rank {rank}"] = {"layer.weight": merged[0].weight.data.contiguous()}
    return files


def main(place: Path, model: Path, texts: Path) -> None:
    torch.set_grad_enabled(False)
    weights = load_file(place / "bf16.safetensors")
    parents = [load_file(place / f"parent-{number}.safetensors") for number in (1, 2)]
    files = bitsandbytes_files(weights) | compressed_files(weights) | written_files(weights)
    files |= corrected_files(place, model, texts)
    files |= merged_files(weights, parents) | adapted_files(load_file(place / "wide.safetensors")["layer.weight"])
    made = {}
    for title, tensors in files.items():
        path = place / f"tool-{title.replace(', ', '-').replace(' ', '-')}.safetensors"
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
        levels = ("weight", "weight_packed", "qweight", "g_idx")
        scales = [tensor for name, tensor in tensors.items() if not name.endswith(levels)]
        made[title] = {"path": str(path), "scales": sum(scale.numel() * scale.element_size() for scale in scales)}
    tools = ["bitsandbytes", "compressed-tensors", "mergekit", "peft", "torch"]
    print(json.dumps({"files": made, "versions": {tool: version(tool) for tool in tools}}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
