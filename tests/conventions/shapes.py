"""Models whose figures were published, as their owners describe them."""

from __future__ import annotations

from typing import Any

from calc.spec import Attention, LayerGroup, ModelSpec, Moe, Shorthand
from calc.spec.run import Run


def gpt(d_model: int, n_layers: int, n_heads: int, vocab_size: int = 51200, **sizes: Any) -> ModelSpec:
    """A GPT with d_ff = 4 * d_model, 2,048 learned positions and a tied head, unless told otherwise."""
    known = {"max_seq_len": 2048, **sizes}
    return Shorthand(d_model=d_model, n_layers=n_layers, n_heads=n_heads, vocab_size=vocab_size, **known).expand()


def llama(d_model: int, n_layers: int, n_heads: int, d_ff: int) -> ModelSpec:
    """A Llama 3 (arXiv:2407.21783, table 3): gated, 8 key and value heads, 128,256 tokens, head of its own."""
    return Shorthand(
        d_model=d_model,
        n_layers=n_layers,
        n_heads=n_heads,
        n_kv_heads=8,
        d_ff=d_ff,
        vocab_size=128256,
        gated=True,
        bias=False,
        norm="rmsnorm",
        position="rope",
        tied=False,
    ).expand()


LLAMA_3 = {
    "8B": llama(4096, 32, 32, 14336),
    "70B": llama(8192, 80, 64, 28672),
    "405B": llama(16384, 126, 128, 53248),
}

PALM_540B = Shorthand(
    d_model=18432,
    n_layers=118,
    n_heads=48,
    n_kv_heads=1,
    d_head=256,
    vocab_size=256000,
    gated=True,
    bias=False,
    placement="parallel",
    position="rope",
).expand()
"""arXiv:2204.02311, section 2 and table 1: multi-query, SwiGLU, parallel layers, no biases, shared embeddings."""


def gpt_oss_20b() -> ModelSpec:
    """gpt-oss-20b (arXiv:2508.10925): 32 experts of which 4 run, every other layer with a window of 128."""

    def layers(name: str, window: int | None) -> LayerGroup:
        mixer = Attention(n_heads=64, n_kv_heads=8, d_head=64, qkv_bias=True, out_bias=True, sinks=True, window=window)
        channel = Moe(n_experts=32, top_k=4, d_expert=2880, bias=True, router_bias=True)
        return LayerGroup(name=name, count=12, mixer=mixer, channel=channel)

    groups = (layers("sliding", 128), layers("full", None))
    return ModelSpec(d_model=2880, vocab_size=201088, layers=groups, schedule=("sliding", "full") * 12)


def train(convention: str, seq: int, **more: Any) -> Run:
    """Training of one sequence of `seq` tokens."""
    return Run(seq=seq, phase="training", convention=convention, **more)
