"""Importers: one module a family, each turning its config.json into a ModelSpec. README.md says how to add one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pydantic import ValidationError

from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import ModelSpec
from calc.spec.fields import refuse

FAMILIES: dict[str, str] = {
    "gpt2": "gpt2",
    "gpt_neo": "gpt_neo",
    "gpt_neox": "gpt_neox",
    "gptj": "gptj",
    "opt": "opt",
    "bloom": "bloom",
    "mpt": "mpt",
    "falcon": "falcon",
    "llama": "llama",
    "mistral": "mistral",
    "mixtral": "mixtral",
    "qwen2": "qwen2",
    "qwen2_moe": "qwen2_moe",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3_moe",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3_text",
    "phi": "phi",
    "phi3": "phi3",
    "phimoe": "phimoe",
    "stablelm": "stablelm",
    "gpt_bigcode": "gpt_bigcode",
    "starcoder2": "starcoder2",
    "olmo": "olmo",
    "olmo2": "olmo2",
    "olmo3": "olmo3",
    "olmoe": "olmoe",
    "granite": "granite",
    "granitemoe": "granitemoe",
    "cohere": "cohere",
    "cohere2": "cohere2",
    "dbrx": "dbrx",
    "gpt_oss": "gpt_oss",
    "glm": "glm",
    "glm4": "glm4",
    "exaone4": "exaone4",
    "smollm3": "smollm3",
    "minicpm": "minicpm",
}
"""`model_type` of a config.json -> the module here that reads it. Modules are imported when asked for."""


def from_config(raw: dict[str, Any], name: str = "model") -> ModelSpec:
    """The description of the model that a decoded config.json stands for.

    Errors: Refused for an unknown `model_type` and for any field that is missing, mistyped or out of range.
    """
    model_type = raw.get("model_type")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise Refused("model_type", f"one of {known}", "nothing" if "model_type" not in raw else model_type)
    cfg = Config(raw)
    cfg.only("per_layer_config", None, why="layers with sizes of their own are not described")
    if "auto_map" in raw:
        cfg.notes.append("auto_map is ignored: no code that comes with a model is run")
    module = import_module(f"calc.architectures.{FAMILIES[model_type]}")
    try:
        spec = module.spec(cfg)
    except ValidationError as error:
        raise refuse(error) from None
    return spec.model_copy(update={"name": name, "family": model_type, "notes": tuple(cfg.notes)})
