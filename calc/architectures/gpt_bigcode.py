"""SantaCoder and StarCoder (arXiv:2301.03988, 2305.06161)."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.gpt2 import gpt
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """GPT-2 with one key-value head for all queries, unless `multi_query` is false."""
    return gpt(cfg, n_kv_heads=1 if cfg.flag("multi_query", absent=True) else None, act="gelu_tanh")
