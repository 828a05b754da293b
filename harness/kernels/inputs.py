"""Random inputs of a kernel, and the masks and biases that a shape stands for."""

from __future__ import annotations

import torch
from torch import Tensor

from calc.attention.shape import AttentionShape
from reference_models.blocks.positions import alibi_slopes

DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def random_inputs(shape: AttentionShape, device: str, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v with standard normal values; of latent attention q, the cache and the matrix that expands it."""
    sizes: list[tuple[int, ...]] = [
        (shape.batch, shape.heads, shape.seq, shape.d_head),
        (shape.batch, shape.kv_heads, shape.keys, shape.d_head),
        (shape.batch, shape.kv_heads, shape.keys, shape.d_value),
    ]
    if shape.kv_rank is not None and shape.d_rope is not None:
        sizes[1] = (shape.batch, 1, shape.keys, shape.kv_rank + shape.d_rope)
        sizes[2] = (shape.heads, shape.kv_rank, shape.d_head - shape.d_rope + shape.d_value)
    generator = torch.Generator(device).manual_seed(seed)
    made = [torch.randn(size, generator=generator, device=device) for size in sizes]
    if shape.kv_rank is not None:
        # Expanded keys and values are then as large as the latents.
        made[2] /= shape.kv_rank**0.5
    q, k, v = (tensor.to(DTYPES[shape.dtype]) for tensor in made)
    for tensor in (q, k, v):
        tensor.requires_grad_(shape.direction == "backward")
    return q, k, v


def positions(shape: AttentionShape, device: torch.device) -> Tensor:
    """[seq, keys]: how far behind each query a key stands; below 0 where it stands before it."""
    queries = torch.arange(shape.seq, device=device) + shape.offset
    return queries[:, None] - torch.arange(shape.keys, device=device)


def visible(shape: AttentionShape, device: torch.device) -> Tensor | None:
    """Which keys each query sees, [1 or batch, 1, seq, keys], or None for all of them."""
    if not shape.hides:
        return None
    behind = positions(shape, device)
    seen = torch.ones_like(behind, dtype=torch.bool)
    if shape.causal:
        seen &= behind >= 0
    if shape.window is not None:
        seen &= (behind if shape.causal else behind.abs()) < shape.window
    seen = seen[None, None]
    if shape.lengths is not None:
        real = torch.arange(shape.keys, device=device) < torch.tensor(shape.lengths, device=device)[:, None]
        seen = seen & real[:, None, None, :]
    return seen


def alibi(shape: AttentionShape, device: torch.device) -> Tensor:
    """What ALiBi adds to the scores, [1, heads, seq, keys], in fp32."""
    return -(alibi_slopes(shape.heads, device)[:, None, None] * positions(shape, device).abs())[None]
