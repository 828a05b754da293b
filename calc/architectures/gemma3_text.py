"""Gemma 3's text model (arXiv:2503.19786): Gemma 2 with norms on queries and keys, one full layer after five sliding."""

from __future__ import annotations

from calc.architectures.common import attention_kinds
from calc.architectures.config import Config
from calc.architectures.gemma import gemma_attention
from calc.architectures.gemma2 import sandwich
from calc.architectures.llama import decoder
from calc.spec.model import ModelSpec, QkNorm


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
    period = cfg.size("sliding_window_pattern", absent=6)
    kinds = attention_kinds(cfg, cfg.layers("num_hidden_layers"), lambda i: (i + 1) % period != 0)
    return decoder(cfg, sandwich(cfg, mixer, kinds), max_seq_len=131072, vocab_absent=262208, tied=True)
