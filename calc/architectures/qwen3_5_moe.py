"""Qwen3.5's mixtures of experts (Qwen 2026): Qwen3-Next's layers with a vision tower. Also the text part alone."""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.llama import decoder
from calc.architectures.qwen3_next import delta_net, hybrid, offset_norm
from calc.architectures.qwen_vision import qwen_tower
from calc.architectures.vision import multimodal, text_section
from calc.spec import ModelSpec, Moe


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Qwen3_5MoeConfig; the outer model is not tied unless it says so."""
    if cfg.raw["model_type"] == "qwen3_5_moe_text":
        return text(cfg)
    inner = text(text_section(cfg, "qwen3_5_moe_text"))
    return multimodal(cfg, inner, qwen_tower(cfg, inner.d_model, "qwen3_5_moe", deepstack=False), tied=False)


def text(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Qwen3_5MoeTextConfig: experts in every layer."""
    experts = Moe(
        n_experts=cfg.size("num_experts"),
        top_k=cfg.size("num_experts_per_tok"),
        d_expert=cfg.size("moe_intermediate_size"),
        d_shared=cfg.size("shared_expert_intermediate_size"),
        shared_gate=True,
        activation=activation(cfg, "hidden_act", absent="silu"),
    )
    n_layers = cfg.layers("num_hidden_layers")
    layers = hybrid(cfg, delta_net(cfg, fused=False), ["moe"] * n_layers, {"moe": experts}, kv_absent=2)
    return decoder(cfg, layers, max_seq_len=32768, norm=offset_norm(cfg))
