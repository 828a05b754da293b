"""VaultGemma (arXiv:2510.15001): Gemma 2 without the norms behind its blocks."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.gemma2 import capped_layers, ends
from calc.architectures.llama import decoder
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' VaultGemmaConfig, which are Gemma 2's."""
    _, layers = capped_layers(cfg, placement="pre")
    return decoder(cfg, layers, max_seq_len=8192, tied=True, **ends(cfg, softcap=30.0))
