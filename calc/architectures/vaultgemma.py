"""VaultGemma (arXiv:2510.15001): Gemma 2 without the norms behind its blocks."""

from __future__ import annotations

from calc.architectures.common import alternating, layer_kinds
from calc.architectures.config import Config
from calc.architectures.gemma import gemma_attention
from calc.architectures.gemma2 import ends, query_scale, sandwich
from calc.architectures.llama import decoder
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' VaultGemmaConfig, which are Gemma 2's."""
    softcap = cfg.number("attn_logit_softcapping", absent=50.0, null=None)
    mixer = gemma_attention(cfg, kv_absent=4, softcap=softcap, scale=query_scale(cfg))
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_attention_heads", mixer.n_heads)
    kinds = layer_kinds(cfg, alternating(cfg.layers("num_hidden_layers"), 2))
    layers = sandwich(cfg, mixer, kinds, placement="pre")
    return decoder(cfg, layers, max_seq_len=8192, tied=True, **ends(cfg, softcap=30.0))
