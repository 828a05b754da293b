"""Youtu-LLM (Tencent 2025, arXiv:2512.24618): DeepSeek-V3's latent attention with a gated MLP in every layer."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import latent_attention
from calc.architectures.llama import decoder, gated_mlp, rms_norm
from calc.spec import LayerGroup, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' YoutuConfig: queries from a latent of 1536 unless `q_lora_rank` is null, tied."""
    interleaved = cfg.flag("rope_interleave", absent=True, null=False)
    mixer = latent_attention(cfg, q_rank_absent=1536, interleaved=interleaved)
    norm = rms_norm(cfg)
    layer = LayerGroup(count=cfg.layers("num_hidden_layers"), mixer=mixer, channel=gated_mlp(cfg), norm=norm)
    return decoder(cfg, {"layers": (layer,)}, max_seq_len=131072, norm=norm, tied=True)
