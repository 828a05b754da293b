"""Kimi K2.5 (Moonshot 2026): Kimi K2, which is DeepSeek-V3's architecture, with a vision tower."""

from __future__ import annotations

from calc.architectures import deepseek_v3
from calc.architectures.config import Config
from calc.architectures.kimi_vision import kimi_tower
from calc.architectures.vision import multimodal, text_section
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """The language model calls itself kimi_k2 in published configs and deepseek_v3 where transformers has saved it."""
    text = deepseek_v3.spec(text_section(cfg, "kimi_k2", "deepseek_v3"))
    return multimodal(cfg, text, kimi_tower(cfg, text.d_model), tied=True)
