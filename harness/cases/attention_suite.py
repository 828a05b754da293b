"""The suite of attention: what matters most first, so that what time does not last for is the least.

A GPU has ten minutes. The product and the copy that results are held against come first, then the kernels that a user
chooses between at long prompts, decoding by how heads share keys, and then one sweep after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.cases.attention import AttentionCase, DecodeAttentionCase
from harness.cases.case import Case
from harness.cases.matmul import MatmulCase
from harness.cases.passes import PassCase
from harness.kernels import KERNELS
from harness.record import Environment

FAST = ("sdpa_cudnn", "sdpa_flash", "triton", "flash_attn_3", "flash_attn", "flex")
"""One kernel each, made for long prompts on a GPU."""
OURS = ("triton_decode", "triton_paged")
"""Our own kernels for a few new tokens."""
DECODING = (*OURS, "sdpa_flash", "sdpa_cudnn", "flash_attn_3", "flash_attn", "sdpa_math")
LATENT: dict[str, Any] = {"kv_rank": 512, "d_rope": 64}
"""DeepSeek-V2's and V3's cache."""
TOKENS = 2**14
"""Tokens of all sequences together on a GPU, and 2,048 numbers a token: as FlashAttention's papers measure."""
EVERY = tuple(name for name, each in KERNELS.items() if each.function == "softmax" and name not in OURS)


def attention(environment: Environment) -> list[Case]:
    """Every backend of the registry at one shape at least; where one cannot run, the row says why."""
    return list(_on_gpu() if environment.device == "cuda" else _on_cpu())


def _prompt(backend: str, seq: int, d_head: int = 128, direction: Any = "forward", **more: Any) -> AttentionCase:
    sizes: dict[str, Any] = {"heads": 2048 // d_head, "batch": max(TOKENS // seq, 1)} | more
    return AttentionCase(backend, seq, d_head=d_head, direction=direction, **sizes)


def _grouping(backends: tuple[str, ...], batch: int, context: int, dtype: Any) -> Iterator[Case]:
    """32 heads of 128 with 32, 8 and 1 heads of keys, then latents."""
    for kv_heads in (8, 32, 1):
        for backend in backends:
            yield DecodeAttentionCase(backend, context, 32, 128, batch, kv_heads, dtype=dtype)
    for backend in ("mla_absorbed", "mla_naive"):
        yield DecodeAttentionCase(backend, context, 32, 128, batch, dtype=dtype, **LATENT)


def _on_gpu() -> Iterator[Case]:
    yield MatmulCase(8192, 8192, 8192)
    yield PassCase("copy", 2**28)
    for seq in (8192, 16384):
        for direction in ("forward", "backward"):
            for backend in FAST:
                yield _prompt(backend, seq, direction=direction)
    # 8 heads of keys: 1 GB of them.
    yield from _grouping(DECODING, 32, 8192, "bf16")
    yield from _memory()
    for seq in (512, 1024, 2048, 4096, 32768, 131072):
        for backend in FAST[:3]:
            yield _prompt(backend, seq)
    for backend in EVERY:
        yield _prompt(backend, 2048)
    yield from _shapes()
    yield from _table()


def _memory() -> Iterator[Case]:
    """What holds every score, and what does not, at lengths that double: bytes at the peak grow fourfold or twofold."""
    for seq in (1024, 2048, 4096):
        for backend in ("reference", "sdpa_flash", "sdpa_math"):
            yield _prompt(backend, seq, batch=4)
    for seq in (1024, 2048):
        yield _prompt("tiled", seq, batch=4)
    yield _prompt("reference", 2048, direction="backward", batch=4)


def _shapes() -> Iterator[Case]:
    """Widths of heads, sharing of keys, masks, a cache that is continued, lengths of caches, formats."""
    for d_head in (64, 256):
        for backend in FAST[:3]:
            yield _prompt(backend, 8192, d_head)
        for backend in FAST[:2]:
            yield _prompt(backend, 8192, d_head, "backward")
    for kv_heads in (8, 4, 1):
        for backend in FAST[:3]:
            yield _prompt(backend, 8192, heads=32, kv_heads=kv_heads, batch=1)
    for backend in FAST[:3]:
        yield _prompt(backend, 8192, causal=False)
        yield _prompt(backend, 2048, keys=16384, batch=4)
    for backend in ("flex", "triton"):
        yield _prompt(backend, 8192, window=1024)
    for batch, context in ((1, 8192), (1, 131072), (16, 32768)):
        for backend in ("triton_decode", "sdpa_flash"):
            yield DecodeAttentionCase(backend, context, 32, 128, batch, 8)
    for seq in (8192, 32768):
        yield _prompt("linear", seq)
    yield _prompt("sdpa_cudnn", 8192, d_head=192, d_value=128, heads=16)


def _table() -> Iterator[Case]:
    """The setting of the FlashAttention table that lecture notes print: GPT-2 medium, forward and backward."""
    sizes: dict[str, Any] = {"heads": 16, "batch": 64, "causal": False, "dtype": "fp16"}
    for backend in ("sdpa_flash", "reference"):
        for direction in ("forward", "backward"):
            yield _prompt(backend, 1024, 64, direction, **sizes)


def _on_cpu() -> Iterator[Case]:
    """Four heads of 64; 32 of 128 in decoding."""
    small: dict[str, Any] = {"heads": 4, "d_head": 64, "dtype": "fp32"}
    ours = ("sdpa_flash", "reference", "tiled")
    for seq in (512, 128, 2048):
        for backend in (*ours, "sdpa_math"):
            yield AttentionCase(backend, seq, **small)
    for seq in (512, 128):
        for backend in (*ours, "sdpa_math"):
            yield AttentionCase(backend, seq, **small, direction="backward")
    yield from _grouping(("sdpa_flash", "sdpa_math"), 1, 4096, "fp32")
    for backend in EVERY:
        yield AttentionCase(backend, 512, **small)
    for backend in ours:
        yield AttentionCase(backend, 512, **small, kv_heads=1)
        yield AttentionCase(backend, 512, **small, causal=False)
        yield AttentionCase(backend, 128, **small, keys=1024)
    for backend in ours[:2]:
        for d_head in (128, 256):
            yield AttentionCase(backend, 512, 4, d_head, dtype="fp32")
        yield AttentionCase(backend, 512, **small, batch=4)
        for direction in ("forward", "backward"):
            yield AttentionCase(backend, 512, 4, 64, dtype="bf16", direction=direction)
        yield AttentionCase(backend, 512, **small, kv_heads=2, direction="backward")
    for backend in ("sdpa_flash", "tiled", "flex"):
        yield AttentionCase(backend, 512, **small, window=64)
    for seq in (512, 2048):
        yield AttentionCase("linear", seq, **small)
    for context in (512, 8192):
        yield DecodeAttentionCase("sdpa_flash", context, 32, 128, kv_heads=8, dtype="fp32")
    for backend in OURS:
        yield DecodeAttentionCase(backend, 512, 32, 128, kv_heads=8, dtype="fp32")
