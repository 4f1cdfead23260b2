"""The models that files are made of: shapes by distribution, filled from a pool of normally distributed numbers.

Contents do not matter to raw reading and writing, so tensors are cut out of one pool instead of being drawn anew; a
3 GB model is there in a second. Compression has its own scenarios, where contents are all that matters.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

DISTRIBUTIONS = ("llama-1b", "large", "mixed", "small")
POOL_VALUES = 1 << 24
LLAMA_MEGABYTES = 2998


def arrays(distribution: str, megabytes: int) -> dict[str, np.ndarray]:
    """A model of about that many megabytes (10^6 bytes)."""
    dtype = np.float16 if distribution == "llama-1b" else np.float32
    pool = np.random.default_rng(20).standard_normal(POOL_VALUES, dtype=np.float32).astype(dtype)
    return {
        name: _fill(pool, position, shape) for position, (name, shape) in enumerate(shapes(distribution, megabytes))
    }


def shapes(distribution: str, megabytes: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    if distribution == "llama-1b":
        yield from _llama(megabytes)
    elif distribution == "large":
        for index in range(max(1, round(megabytes * 1e6 / (4096 * 4096 * 4)))):
            yield f"layers.{index}.weight", (4096, 4096)
    elif distribution == "mixed":
        yield from _mixed(megabytes)
    elif distribution == "small":
        for index in range(max(1, round(megabytes * 1e6 / 10_000))):
            yield f"layers.{index // 10}.parameter.{index % 10}", (50, 50)
    else:
        raise ValueError(f'unknown distribution "{distribution}"; one of {", ".join(DISTRIBUTIONS)}')


def payload_bytes(distribution: str, megabytes: int) -> int:
    width = 2 if distribution == "llama-1b" else 4
    return sum(int(np.prod(shape)) for _, shape in shapes(distribution, megabytes)) * width


def _llama(megabytes: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Llama 3.2 1B with an output matrix of its own; smaller sizes have fewer layers and a smaller vocabulary."""
    part = min(1.0, megabytes / LLAMA_MEGABYTES)
    vocabulary = max(256, round(128256 * part))
    yield "model.embed_tokens.weight", (vocabulary, 2048)
    for layer in range(max(1, round(16 * part))):
        prefix = f"model.layers.{layer}"
        yield f"{prefix}.self_attn.q_proj.weight", (2048, 2048)
        yield f"{prefix}.self_attn.k_proj.weight", (512, 2048)
        yield f"{prefix}.self_attn.v_proj.weight", (512, 2048)
        yield f"{prefix}.self_attn.o_proj.weight", (2048, 2048)
        yield f"{prefix}.mlp.gate_proj.weight", (8192, 2048)
        yield f"{prefix}.mlp.up_proj.weight", (8192, 2048)
        yield f"{prefix}.mlp.down_proj.weight", (2048, 8192)
        yield f"{prefix}.input_layernorm.weight", (2048,)
        yield f"{prefix}.post_attention_layernorm.weight", (2048,)
    yield "model.norm.weight", (2048,)
    yield "lm_head.weight", (vocabulary, 2048)


def _mixed(megabytes: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Transformer blocks of width 1024: square and wide matrices, and vectors."""
    block = [
        *((f"attention.{part}.weight", (1024, 1024)) for part in ("query", "key", "value", "output")),
        *((f"attention.{part}.bias", (1024,)) for part in ("query", "key", "value", "output")),
        ("mlp.up.weight", (4096, 1024)),
        ("mlp.up.bias", (4096,)),
        ("mlp.down.weight", (1024, 4096)),
        ("mlp.down.bias", (1024,)),
        ("norm.weight", (1024,)),
        ("norm.bias", (1024,)),
    ]
    block_bytes = sum(int(np.prod(shape)) * 4 for _, shape in block)
    for index in range(max(1, round(megabytes * 1e6 / block_bytes))):
        for name, shape in block:
            yield f"blocks.{index}.{name}", shape


def _fill(pool: np.ndarray, position: int, shape: tuple[int, ...]) -> np.ndarray:
    """Values from the pool, starting somewhere else for each tensor and wrapping around."""
    count = int(np.prod(shape))
    filled = np.empty(count, dtype=pool.dtype)
    start = position * 104_729 % len(pool)
    done = 0
    while done < count:
        step = min(count - done, len(pool) - start)
        filled[done : done + step] = pool[start : start + step]
        done, start = done + step, 0
    return filled.reshape(shape)
