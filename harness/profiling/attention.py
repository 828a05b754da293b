"""Timing PyTorch's attention: over a prompt, back through it, and of one new token. Needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from harness.profiling.clock import Clock, Pool, repeats, several
from harness.profiling.samples import Key, Station
from harness.profiling.shapes import Reach, attention_shapes

_FARTHER = 16
"""Caches are so many times as long as the prompts that are measured."""


class Fused(NamedTuple):
    """One call of the kernel."""

    batch: int
    heads: int
    kv_heads: int
    seq: int
    d_head: int
    causal: bool = True


SDPA = {0: "sdpa_math", 1: "sdpa_flash", 2: "sdpa_efficient", 3: "sdpa_cudnn"}
"""torch.nn.attention.SDPBackend -> the backend of harness.kernels that is held to it."""


def chosen(device: str, dtype: str) -> str:
    """The backend that PyTorch chooses by itself for causal attention, which is what is measured here."""
    formats = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    q = torch.zeros(1, 4, 256, 64, device=device, dtype=formats[dtype])
    return SDPA.get(int(torch._fused_sdp_choice(q, q, q, None, 0.0, True)), "sdpa")  # pyright: ignore[reportPrivateImportUsage]


def prompts(reach: Reach, count: int, flops: float) -> list[Fused]:
    """`count` shapes: of models with and without shared keys, a few without a mask."""
    found = []
    for i, (batch, heads, seq, d_head) in enumerate(attention_shapes(reach, count, flops)):
        shared = 4 if i % 4 == 3 and heads % 4 == 0 else 1
        found.append(Fused(batch, heads, heads // shared, seq, d_head, i % 5 != 4))
    return found


def caches(reach: Reach, count: int, elements: int) -> list[Fused]:
    """`count` shapes of decoding, none with a cache of more than `elements` numbers a tensor."""
    found = []
    for i, (batch, heads, kv_heads, seq, d_head, _) in enumerate(prompts(reach, count, float("inf"))):
        context = seq * _FARTHER ** ((i % 3) / 2)
        batch = max(min(batch, 16, int(elements / (kv_heads * context * d_head))), 1)
        context = min(context, elements / (batch * kv_heads * d_head))
        found.append(Fused(batch, heads, kv_heads, max(int(context), 16), d_head))
    return found


def prompt_station(shape: Fused, clock: Clock, pool: Pool, dtype: str, rate: float) -> Station:
    """Forward and back, with heads as views of what the projections gave."""
    batch, heads, kv_heads, seq, d_head, causal = shape
    sizes = (batch, heads, kv_heads, seq, seq, d_head, float(causal))

    def forward(item: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        q, k, v, gradient = item
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv_heads)
        return out, q, k, v, gradient

    def back(made: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        out, *qkv, gradient = made
        return torch.autograd.grad(out, qkv, gradient)

    def measure() -> Iterator[tuple[Key, float]]:
        runs = repeats(4 * batch * heads * seq**2 * d_head / rate, most=12)
        q, kv = (batch, seq, heads, d_head), (batch, seq, kv_heads, d_head)
        items = several(
            lambda: (pool.heads(*q), pool.heads(*kv), pool.heads(*kv), pool.take(batch, heads, seq, d_head)), runs
        )
        ahead, behind = clock.pair(forward, back, items)
        yield Key(f"attention.{dtype}", sizes), ahead
        yield Key(f"attention.{dtype}.backward", sizes), behind

    return Station(f"attention {dtype} {shape}", measure)


def cache_station(shape: Fused, clock: Clock, pool: Pool, dtype: str, speed: float) -> Station:
    """One new token of each sequence against all that is cached. speed: bytes a second, as far as known."""
    batch, heads, kv_heads, context, d_head, _ = shape

    def run(item: tuple[Tensor, ...]) -> Tensor:
        q, k, v = item
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=heads != kv_heads)

    def measure() -> Iterator[tuple[Key, float]]:
        moved = 2 * batch * kv_heads * context * d_head * pool.numbers.element_size()
        cache = (batch, kv_heads, context, d_head)
        items = several(
            lambda: (pool.take(batch, heads, 1, d_head), pool.take(*cache), pool.take(*cache)), repeats(moved / speed)
        )
        with torch.no_grad():
            seconds = clock.each(run, items)
        yield Key(f"decode.{dtype}", (batch, heads, kv_heads, context, d_head)), seconds

    return Station(f"decode {dtype} {shape}", measure)
