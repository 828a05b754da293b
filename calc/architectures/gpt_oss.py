"""gpt-oss (OpenAI 2025, arXiv:2508.10925): attention with sinks, every other layer sliding, experts with biases."""

from __future__ import annotations

from calc.architectures.common import alternating, layer_kinds, sliding_stack
from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, rms_norm
from calc.architectures.mixtral import local_experts
from calc.architectures.rope import rope
from calc.spec import GateClamp, ModelSpec, Rope, RopeScaling


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' GptOssConfig: heads 64 wide, 8 key-value heads, window 128, biases in attention."""
    n_layers = cfg.layers("num_hidden_layers")
    bias = cfg.flag("attention_bias", absent=True)
    window = cfg.size("sliding_window", absent=128, null=None)
    mixer = attention(
        cfg,
        kv_absent=8,
        d_head_absent=64,
        d_head_null=None,
        qkv_bias=bias,
        out_bias=bias,
        sinks=True,
        softmax="model",
        rope=_rope(cfg),
    )
    channel = local_experts(cfg).model_copy(update={"bias": True, "router_bias": True, "clamp": _clamp(cfg)})
    kinds = layer_kinds(cfg, alternating(n_layers, 2))
    # The published configs name the same number twice.
    cfg.only("experts_per_token", channel.top_k, why="the same as num_experts_per_tok")
    norm = rms_norm(cfg, 1e-5, wide=True)
    return decoder(cfg, sliding_stack(kinds, mixer, window, channel=channel, norm=norm), max_seq_len=131072, norm=norm)


def _rope(cfg: Config) -> Rope:
    """The class stretches 4096 tokens 32 times where no key says anything."""
    turning = rope(cfg, theta=150_000.0)
    if any(cfg.raw.get(key) is not None for key in ("rope_parameters", "rope_scaling")):
        return turning
    stretched = RopeScaling(kind="yarn", factor=32.0, original=4096, truncate=False)
    return turning.model_copy(update={"scaling": stretched})


def _clamp(cfg: Config) -> GateClamp:
    alpha, limit = cfg.number("swiglu_alpha", absent=1.702), cfg.number("swiglu_limit", absent=7.0)
    return GateClamp(limit=limit, alpha=alpha, shift=1.0)
