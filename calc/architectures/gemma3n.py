"""Gemma 3n (Google, 2025) with eyes and ears, of which the language model and the ears are described, each alone: see
gemma3n_text and gemma3n_audio.

Its eyes are MobileNet-v5 as timm builds it; a config of all three is refused with the class that counts the text.
"""

from __future__ import annotations

from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Errors: Refused, always: a class of the language model is read from text_config before anything comes here."""
    why = "the language model, since its eyes, timm's MobileNet-v5, are not described"
    found = cfg.named_class() or "none, which means Gemma3nForConditionalGeneration"
    raise Refused(f"{cfg.where}architectures", f"Gemma3nForCausalLM ({why})", found)
