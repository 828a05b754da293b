"""Qwen3.5 (Qwen 2026): Qwen3-Next's mixers with dense layers and a vision tower. Also its text part alone."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import decoder, gated_mlp
from calc.architectures.qwen3_next import delta_net, hybrid, offset_norm
from calc.architectures.qwen_vision import qwen_tower
from calc.architectures.vision import multimodal, text_section
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Qwen3_5Config; the outer model is not tied unless it says so."""
    if cfg.raw["model_type"] == "qwen3_5_text":
        return text(cfg)
    inner = text(text_section(cfg, "qwen3_5_text"))
    return multimodal(cfg, inner, qwen_tower(cfg, inner.d_model, "qwen3_5", deepstack=False), tied=False)


def text(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Qwen3_5TextConfig."""
    n_layers = cfg.layers("num_hidden_layers")
    layers = hybrid(cfg, delta_net(cfg, fused=False), ["dense"] * n_layers, {"dense": gated_mlp(cfg)}, kv_absent=4)
    return decoder(cfg, layers, max_seq_len=32768, norm=offset_norm(cfg))
