"""Phi-3.5-MoE (arXiv:2404.14219): Mixtral's layers with LayerNorm, and biases in attention and head where told."""

from __future__ import annotations

from calc.architectures.common import layer_norm
from calc.architectures.config import Config
from calc.architectures.llama import attention, uniform
from calc.architectures.mixtral import jitter, local_experts
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' PhimoeConfig: 8 key-value heads, no window, no biases where the keys are absent."""
    cfg.only("num_experts_per_tok", 2, why="this family's router picks a first and a second expert")
    bias = cfg.flag("attention_bias", absent=False)
    window = cfg.size("sliding_window", absent=None, null=None)
    mixer = attention(cfg, kv_absent=8, qkv_bias=bias, out_bias=bias, window=window, theta=1_000_000.0)
    # The noise that keeps training random is, without it, how far from the best a logit may lie to be compared with.
    tolerance = cfg.number("router_jitter_noise", absent=0.01)
    experts = local_experts(cfg, jitter(cfg, "input_jitter_noise")).model_copy(
        update={"scoring": "sparsemixer", "tolerance": tolerance, "renormalize": False, "jitters": 2}
    )
    return uniform(
        cfg,
        mixer,
        experts,
        norm=layer_norm(cfg, "rms_norm_eps"),
        max_seq_len=131072,
        head_bias=cfg.flag("lm_head_bias", absent=False),
    )
