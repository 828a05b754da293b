"""Gemma 3n (Google, 2025) with eyes and ears, of which the language model alone is described: see gemma3n_text.

Its eyes are MobileNet-v5 as timm builds it, and its ears a Conformer that hears in chunks; a config of both is refused
with the class that counts the rest.
"""

from __future__ import annotations

from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Errors: Refused, always: a class of the language model is read from text_config before anything comes here."""
    why = "the language model, since its towers (timm's MobileNet-v5, a chunked Conformer) are not described"
    found = cfg.named_class() or "none, which means Gemma3nForConditionalGeneration"
    raise Refused(f"{cfg.where}architectures", f"Gemma3nForCausalLM ({why})", found)
