"""Qwen1.5, Qwen2 and Qwen2.5 (arXiv:2407.10671, 2412.15115): Llama's block with biases on queries, keys and values."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import layer_kinds, sliding_stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, gated_mlp, rms_norm
from calc.spec import Attention, Mlp, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Qwen2Config: 32 key-value heads where the key is absent, n_heads if null."""
    return windowed(cfg, attention(cfg, kv_absent=32, qkv_bias=True), gated_mlp(cfg))


def windowed(
    cfg: Config,
    mixer: Attention,
    channel: Mlp,
    *,
    first: int = 28,
    eps: float = 1e-6,
    null: Any = REFUSE,
    window: int = 4096,
) -> ModelSpec:
    """Layers that slide from number `max_window_layers` on, if `use_sliding_window` is set.

    first, eps: what the family takes where that number or the norms' epsilon is absent. null: what the flag as a
    null means there. window: tokens of one where the key is absent.
    """
    n_layers = cfg.layers("num_hidden_layers")
    in_use = window_in_use(cfg, null, window)
    first = cfg.count("max_window_layers", absent=first if in_use else None)
    kinds = layer_kinds(cfg, ["sliding" if in_use and i >= first else "full" for i in range(n_layers)])
    norm = rms_norm(cfg, eps)
    layers = sliding_stack(kinds, mixer, in_use, channel=channel, norm=norm)
    return decoder(cfg, layers, max_seq_len=32768, norm=norm)


def window_in_use(cfg: Config, null: Any = REFUSE, absent: int = 4096) -> int | None:
    """`sliding_window`, `absent` where it is, if `use_sliding_window` is set.

    Without the flag the number has no meaning; the configs then hold any, 0 and null included.
    """
    if not cfg.flag("use_sliding_window", absent=False, null=null):
        cfg.count("sliding_window", absent=None, null=None)
        return None
    return cfg.size("sliding_window", absent=absent, null=None)
