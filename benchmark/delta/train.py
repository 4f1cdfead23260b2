"""Train a small transformer on the CPU and keep checkpoints along the way: the material for the delta benchmark.

The text is the Python standard library's own source, cut into words; most words are rare, so that most rows of the
embedding change by weight decay alone between two checkpoints, as in real training. Two phases: pretraining at a
learning rate of 1e-3, and fine-tuning at 1e-5 from where that ended. In each, one base checkpoint and one after 1, 10
and 50 further steps are stored as raw files with an index (weights, embedding, optimizer state; fp32 and bf16) and, for
archives and model deltas, as `.safetensors`.

    python benchmark/delta/train.py OUTPUT_DIRECTORY
"""

from __future__ import annotations

import argparse
import re
import sysconfig
from collections import Counter
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

VOCABULARY, WIDTH, LAYERS, HEADS, LENGTH, BATCH = 16384, 256, 4, 4, 128, 2
STEPS_BEFORE = 100
GAPS = (1, 10, 50)
PHASES = {"pretraining": 1e-3, "fine-tuning": 1e-5}


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.layers(self.embedding(tokens) + self.position, mask=self.mask, is_causal=True)
        return self.output(self.norm(hidden))


def corpus() -> torch.Tensor:
    """Word numbers by falling frequency; words outside the vocabulary share number 0."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    words = re.findall(r"\w+|[^\w\s]", "\n".join(path.read_text(errors="replace") for path in files))
    known = {word: number for number, (word, _) in enumerate(Counter(words).most_common(VOCABULARY - 1), start=1)}
    return torch.tensor([known.get(word, 0) for word in words])


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, text: torch.Tensor, steps: int, random: torch.Generator
) -> None:
    for _ in range(steps):
        starts = torch.randint(0, len(text) - LENGTH - 1, (BATCH,), generator=random)
        windows = torch.stack([text[start : start + LENGTH + 1] for start in starts.tolist()])
        logits = model(windows[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), windows[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def parts(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, dict[str, torch.Tensor]]:
    names = {parameter: name for name, parameter in model.named_parameters()}
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    state = {
        f"{names[parameter]}.{moment}": values[moment]
        for moment in ("exp_avg", "exp_avg_sq")
        for parameter, values in optimizer.state.items()
    }
    embedding = {"embedding.weight": weights["embedding.weight"]}
    return {"weights": weights, "embedding": embedding, "optimizer": state}


def store(output: Path, name: str, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for part, tensors in parts(model, optimizer).items():
        for dtype, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
            cast = {key: tensor.to(kind).contiguous() for key, tensor in tensors.items()}
            if part == "weights":
                save_file(cast, output / f"{name}.{dtype}.safetensors")
            _store_raw(output / f"{name}-{part}.{dtype}", cast)


def _store_raw(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    offset, lines = 0, []
    with path.open("wb") as file:
        for name, tensor in tensors.items():
            payload = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
            file.write(payload)
            lines.append(f"{offset}\t{len(payload)}\t{','.join(map(str, tensor.shape))}\t{name}\n")
            offset += len(payload)
    Path(f"{path}.tsv").write_text("".join(lines))


def build(output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    # Sums over threads would make the checkpoints depend on the number of cores.
    torch.set_num_threads(1)
    torch.manual_seed(5)
    random = torch.Generator().manual_seed(6)
    model, text = LanguageModel(), corpus()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.1)
    train(model, optimizer, text, STEPS_BEFORE, random)
    for phase, rate in PHASES.items():
        for group in optimizer.param_groups:
            group["lr"] = rate
        store(output, f"{phase}-base", model, optimizer)
        done = 0
        for gap in GAPS:
            train(model, optimizer, text, gap - done, random)
            done = gap
            store(output, f"{phase}-{gap}", model, optimizer)
            print(f"{phase}: {gap} steps", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    build(parser.parse_args().output)
