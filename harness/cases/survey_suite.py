"""The suite of a survey: what tells most about a device comes first, so that minutes that run out cost the least.

On a GPU: the product and the copy that everything is held against; attention, decoding and whole models whose shares of
those limits are asked for; training steps with their peaks of memory; then kernels of every kind and length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.cases.attention import AttentionCase, DecodeAttentionCase
from harness.cases.case import Case
from harness.cases.decoding import DecodeCase
from harness.cases.grouped import GroupedMatmulCase
from harness.cases.matmul import MatmulCase
from harness.cases.passes import PassCase
from harness.cases.scaled import ScaledMatmulCase
from harness.cases.training import TrainingCase
from harness.cases.whole_passes import PrefillCase
from harness.record import Environment

SQUARE = 8192
"""The side of the product that stands for what a GPU can compute."""
LONG = 8192
"""Tokens of the prompts whose attention is held against it: 2 sequences, 16 heads of 128."""
CACHE: dict[str, Any] = {"context": 8192, "heads": 32, "d_head": 128, "batch": 32, "kv_heads": 8}
"""A cache of 1 GiB in bf16."""
MOVED = 2**28
"""Elements of the passes that stand for what a GPU's memory gives: a copy alone would not do, since CUDA graphs copy
512 MiB by an engine that is slower than kernels (2.7 TB/s on an H200, where decoding read 4.4)."""
LATENT: dict[str, Any] = {"kv_rank": 512, "d_rope": 64}
LARGE = 60 * 2**30
"""Bytes of a GPU on which 8B parameters are served and 1.5B are trained."""


def survey(environment: Environment) -> list[Case]:
    """The cases of a survey, the most telling first."""
    if environment.device == "cpu":
        return list(_on_cpu())
    large = environment.memory >= LARGE
    return [*_limits(), *_models(large), *_memory(), *_kernels(), *_more_models(large)]


def _limits() -> Iterator[Case]:
    yield MatmulCase(SQUARE, SQUARE, SQUARE)
    for function in ("add", "copy"):
        yield PassCase(function, MOVED)
    for backend in ("sdpa_cudnn", "sdpa_flash", "triton", "flash_attn", "flash_attn_3"):
        yield AttentionCase(backend, LONG, 16, 128, 2)
    for backend in ("triton_decode", "triton_paged", "sdpa_flash", "sdpa_cudnn", "flash_attn"):
        yield DecodeAttentionCase(backend, **CACHE)


def _models(large: bool) -> Iterator[Case]:
    if large:
        yield DecodeCase("llama-3-8b", 1024, 1, "bf16", "graph")
    yield TrainingCase("gpt2", 1024, 32, "bf16-mixed", "compiled")
    if large:
        yield TrainingCase("gpt-1.5b", 2048, 4, "bf16-mixed", "compiled")
    yield DecodeCase("llama-3.2-1b", 2048, 1, "bf16", "graph")
    yield PrefillCase("llama-3.2-1b", 2048, 1, "bf16")


def _memory() -> Iterator[Case]:
    """Six training steps whose peaks differ for six reasons."""
    yield TrainingCase("gpt2", 1024, 8, "bf16-mixed", "sdpa")
    yield TrainingCase("gpt2", 1024, 8, "bf16-mixed", "eager")
    yield TrainingCase("gpt2", 1024, 8, "bf16-mixed", "sdpa", "selective")
    yield TrainingCase("gpt2", 1024, 8, "bf16-mixed", "sdpa", "full")
    yield TrainingCase("gpt2", 1024, 8, "bf16", "sdpa")
    yield TrainingCase("llama-3.2-1b", 2048, 2, "bf16", "sdpa")


def _kernels() -> Iterator[Case]:
    yield ScaledMatmulCase(SQUARE, SQUARE, SQUARE)
    for m in (16, 1024, 8192):
        yield MatmulCase(m, 14336, 4096)
        yield ScaledMatmulCase(m, 14336, 4096)
    for rows in (128, 4096, 32768):
        yield GroupedMatmulCase(rows, 64, 2048, 2048)
    for backend in ("sdpa_cudnn", "sdpa_flash", "triton", "flash_attn"):
        yield AttentionCase(backend, LONG, 16, 128, 2, direction="backward")
    for backend in ("mla_absorbed", "mla_naive"):
        yield DecodeAttentionCase(backend, 8192, 32, 128, 32, **LATENT)
    for batch, context, kv_heads in ((32, 8192, 32), (32, 8192, 1), (1, 8192, 8), (1, 131072, 8)):
        for backend in ("triton_decode", "triton_paged", "sdpa_flash"):
            yield DecodeAttentionCase(backend, context, 32, 128, batch, kv_heads)
    for seq in (1024, 2048, 32768):
        for backend in ("sdpa_flash", "triton"):
            yield AttentionCase(backend, seq, 16, 128, max(2**14 // seq, 1))


def _more_models(large: bool) -> Iterator[Case]:
    if large:
        for execution in ("sdpa", "compiled"):
            yield DecodeCase("llama-3-8b", 1024, 1, "bf16", execution)
        yield DecodeCase("llama-3-8b", 1024, 16, "bf16", "graph")
        yield PrefillCase("llama-3-8b", 2048, 1, "bf16", "compiled")
    yield DecodeCase("llama-3.2-1b", 2048, 16, "bf16")
    yield PrefillCase("moe-3b", 2048, 1, "bf16")
    yield DecodeCase("moe-3b", 2048, 1, "bf16")
    yield DecodeCase("mla-2b", 2048, 1, "bf16", "graph")


def _on_cpu() -> Iterator[Case]:
    """The same course at sizes for two cores; Triton's kernels in its interpreter, where they are slow and right."""
    small: dict[str, Any] = {"heads": 4, "d_head": 64, "dtype": "fp32"}
    yield MatmulCase(1024, 1024, 1024, dtype="fp32")
    yield PassCase("copy", 2**24, "fp32")
    for backend in ("sdpa_flash", "tiled"):
        yield AttentionCase(backend, 1024, **small)
    for backend in ("sdpa_flash", "sdpa_math"):
        yield DecodeAttentionCase(backend, 4096, 8, 64, kv_heads=2, dtype="fp32")
    yield DecodeCase("tiny-gqa", 256, 1, "fp32")
    yield TrainingCase("tiny-gpt", 128, 2, "fp32")
    yield PrefillCase("tiny-gqa", 128, 2, "fp32")
    for checkpointing in ("selective", "full"):
        yield TrainingCase("tiny-gpt", 128, 4, "fp32", "sdpa", checkpointing)
    yield TrainingCase("tiny-llama", 128, 2, "fp32", "eager")
    yield TrainingCase("tiny-llama", 128, 2, "bf16")
    yield ScaledMatmulCase(256, 512, 512)
    yield GroupedMatmulCase(256, 8, 256, 256)
    for backend in ("mla_absorbed", "mla_naive"):
        yield DecodeAttentionCase(backend, 512, 8, 64, dtype="fp32", kv_rank=64, d_rope=16)
    yield AttentionCase("triton", 32, **small)
    yield AttentionCase("triton", 32, **small, direction="backward")
    for backend in ("triton_decode", "triton_paged"):
        yield DecodeAttentionCase(backend, 64, 8, 64, kv_heads=2, dtype="fp32")
