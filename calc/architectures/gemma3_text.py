"""Gemma 3's text model (arXiv:2503.19786): Gemma 2 with norms on queries and keys, every sixth layer full."""

from __future__ import annotations

from calc.architectures.common import alternating, layer_kinds
from calc.architectures.config import Config
from calc.architectures.gemma import gemma_attention
from calc.architectures.gemma2 import sandwich
from calc.architectures.llama import decoder
from calc.spec import ModelSpec, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Gemma3TextConfig; the published configs leave out all that equals them: 8 heads of
    width 256, 4 key-value heads, vocabulary 262208, window 4096, every sixth layer full, tied."""
    mixer = gemma_attention(
        cfg,
        heads_absent=8,
        kv_absent=4,
        qk_norm=QkNorm(),
        softcap=cfg.number("attn_logit_softcapping", absent=None, null=None),
    )
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_attention_heads", mixer.n_heads)
    n_layers = cfg.layers("num_hidden_layers")
    kinds = layer_kinds(cfg, alternating(n_layers, cfg.size("sliding_window_pattern", absent=6)))
    return decoder(cfg, sandwich(cfg, mixer, kinds), max_seq_len=131072, vocab_absent=262208, tied=True)
