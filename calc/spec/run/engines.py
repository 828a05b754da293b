"""Serving engines: facts of how each allocates the key-value cache, with their sources."""

from __future__ import annotations

from dataclasses import dataclass

from calc.errors import Refused


@dataclass(frozen=True, slots=True)
class Engine:
    """The rules of one engine.

    block: tokens of a page, and latent_block of a page of latents. batched_tokens: what it runs in one pass by default.
    """

    name: str
    meaning: str
    source: str
    block: int
    latent_block: int
    batched_tokens: int


ENGINES = (
    Engine(
        "vllm",
        "pages of 16 tokens (of latents 64); layers of several kinds share one pool of pages of one size",
        "vllm-project/vllm, vllm/v1/kv_cache_interface.py and vllm/v1/core/kv_cache_utils.py at 001cabc1be16 (2026);"
        " pages of latents: vllm/platforms/cuda.py, for FlashMLA; 8192 batched tokens: `vllm serve` on 70 GiB or more",
        block=16,
        latent_block=64,
        batched_tokens=8192,
    ),
)
ENGINE_BY_NAME = {engine.name: engine for engine in ENGINES}
SPARSE_LATENT = (512, 64, 656)
"""(kv_rank, d_rope, bytes) of a token's latent in fp8 where attention is sparse (vLLM's fp8_ds_mla): 512 elements in
fp8, four scales in fp32, and the rotary key in bf16. vllm/v1/attention/backends/mla/flashmla_sparse.py."""
INDEX_BLOCK = 128
"""Elements of an indexer's key that share a scale in fp32; the elements are in fp8 whatever the cache is in
(vllm/model_executor/models/deepseek_v2.py, DeepseekV32IndexerCache)."""


def engine(name: str) -> Engine:
    """The engine called `name`. Errors: Refused, with the known names."""
    if name not in ENGINE_BY_NAME:
        raise Refused("engine", f"one of {', '.join(ENGINE_BY_NAME)}", name)
    return ENGINE_BY_NAME[name]
