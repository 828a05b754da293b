"""Mistral Large 4 with its eyes (Mistral AI 2026): the language model of `mistral_large4_text` and Mistral Small 3.1's
tower."""

from __future__ import annotations

from calc.architectures import mistral_large4_text
from calc.architectures.config import Config
from calc.architectures.mistral3 import tower
from calc.architectures.vision import multimodal, text_section
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Not tied, unless the outer config says so."""
    text = mistral_large4_text.spec(text_section(cfg, "mistral_large4_text"))
    return multimodal(cfg, text, tower(cfg, text), tied=False)
