"""Mixtral (arXiv:2401.04088): Mistral's block with a mixture of experts in every layer."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.llama import attention, uniform
from calc.spec import ModelSpec, Moe


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' MixtralConfig: 8 key-value heads, no window where the keys are absent."""
    window = cfg.size("sliding_window", absent=None, null=None)
    mixer = attention(cfg, kv_absent=8, d_head_null=None, theta=1e6, window=window)
    return uniform(cfg, mixer, local_experts(cfg, jitter(cfg)), eps=1e-5, max_seq_len=131072)


def jitter(cfg: Config, name: str = "router_jitter_noise", absent: float = 0.0) -> float | None:
    """How far from 1 random numbers lie that tokens are multiplied with in training; None for 0 and less."""
    found: float = cfg.number(name, absent=absent)
    return found if found > 0 else None


def local_experts(cfg: Config, noise: float | None = None) -> Moe:
    """`num_local_experts` gated experts of width intermediate_size, of which a token visits `num_experts_per_tok`.

    noise: as `jitter` says.
    """
    return Moe(
        n_experts=cfg.size("num_local_experts"),
        top_k=cfg.size("num_experts_per_tok"),
        d_expert=cfg.size("intermediate_size"),
        activation=activation(cfg, "hidden_act", absent="silu"),
        jitter=noise,
    )
