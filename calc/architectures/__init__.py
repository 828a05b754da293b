"""Importers: one module a family, each turning its config.json into a ModelSpec. docs/adding/family.md is how."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from calc.architectures.balancing import with_balance
from calc.architectures.classes import CLASSES, TEXT_OF, with_class
from calc.architectures.common import LAYERS_OF_THEIR_OWN
from calc.architectures.config import Config, Tying
from calc.architectures.denoisers import DENOISERS
from calc.architectures.families import FAMILIES
from calc.architectures.quantization import shipped
from calc.architectures.unread import refuse_unread, refuse_window
from calc.errors import Refused, show
from calc.reading.files import parse_toml, read_text
from calc.spec import ModelSpec
from calc.spec.fields import refuse


def from_config(raw: dict[str, Any], name: str = "model", tying: Tying = "transformers") -> ModelSpec:
    """The description of the model that a decoded config.json stands for.

    tying: whose word counts where transformers ties a head that the checkpoint holds apart (T5 v1.1 and its kin).
    Errors: Refused for an unknown `model_type`, for any field that is missing, mistyped or out of range, and for a key
    that looks like a misspelt one.
    """
    if not isinstance(raw, dict):
        raise Refused("config", "an object", raw)
    if "_class_name" in raw and "model_type" not in raw:
        return _denoiser(raw, name)
    model_type = raw.get("model_type")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        found = show(model_type) if "model_type" in raw else "nothing"
        raise Refused("model_type", _known_families(raw), found)
    if (text := _language_model(raw, model_type)) is not None:
        return from_config(text, name, tying)
    cfg = Config(raw, tying=tying)
    if model_type not in LAYERS_OF_THEIR_OWN:
        cfg.only("per_layer_config", None, why="layers with sizes of their own are not described")
    if "auto_map" in raw:
        cfg.notes.append("auto_map is ignored: no code that comes with a model is run")
    try:
        spec = with_balance(cfg, _read(cfg, model_type), model_type)
    except ValidationError as error:
        raise refuse(error) from None
    refuse_unread(cfg)
    refuse_window(cfg, spec)
    packed = shipped(cfg)
    return spec.model_copy(update={"name": name, "family": model_type, "shipped": packed, "notes": tuple(cfg.notes)})


def _denoiser(raw: dict[str, Any], name: str) -> ModelSpec:
    """What diffusers' class of that name denoises with."""
    known, named = DENOISERS, raw["_class_name"]
    if not isinstance(named, str) or named not in known:
        raise Refused("_class_name", f"one of {', '.join(known)}", show(named))
    cfg = Config(raw, family=named)
    cfg.only("quantization_config", None, why="how a denoiser's checkpoint is packed is not described")
    try:
        spec = known[named](cfg)
    except ValidationError as error:
        raise refuse(error) from None
    refuse_unread(cfg)
    return spec.model_copy(update={"name": name, "family": named, "notes": tuple(cfg.notes)})


def _read(cfg: Config, model_type: str) -> ModelSpec:
    """What the family's importer makes of the config, with the head of the class that it names."""
    module = import_module(f"calc.architectures.{FAMILIES[model_type]}")
    classes = CLASSES.get(model_type)
    if classes is None:
        return module.spec(cfg)
    kind = cfg.architecture(classes, usual=next(iter(classes)))
    return with_class(cfg, module.spec(cfg), kind)


def _language_model(raw: dict[str, Any], model_type: str) -> dict[str, Any] | None:
    """The config of the language model alone, where `architectures` of one with pictures names a class of it."""
    family, named = TEXT_OF.get(model_type), raw.get("architectures")
    if family is None or not isinstance(named, list) or len(named) != 1:
        return None
    if named[0] not in CLASSES[family] or named[0] in CLASSES[model_type]:
        return None
    text = raw.get("text_config")
    if not isinstance(text, dict):
        raise Refused("text_config", "an object", text)
    return {**text, "model_type": text.get("model_type", family), "architectures": named}


def _known_families(raw: dict[str, Any]) -> str:
    from calc.architectures.nearest import nearest

    close = nearest(raw, FAMILIES)
    such = f"; nearest: {', '.join(close)}" if close else ", such as llama"
    known = f"one of {len(FAMILIES)} known families (`models --families` lists them{such})"
    if "model_type" not in raw:
        known += f", or of diffusers a _class_name, one of {', '.join(DENOISERS)}"
    asks = "; `python -m calc report MODEL --traced` counts what transformers runs for this type"
    return known + asks * (str(raw.get("model_type")) in traceable())


@cache
def traceable() -> frozenset[str]:
    """The types that transformers has a class for, each of which `--traced` can be asked of."""
    file = Path(__file__).parents[1] / "data" / "traceable.toml"
    return frozenset(parse_toml(read_text(file), file.name)["types"])
