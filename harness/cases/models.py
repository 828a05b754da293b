"""The models that cases run, by name: those of `models.toml`, made for this purpose, and the presets of `calc`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from calc.architectures.models import load_model, preset_names
from calc.errors import Refused, did_you_mean
from calc.reading.files import parse_toml, read_text
from calc.spec import ModelSpec, Shorthand

MODELS = Path(__file__).parent / "models.toml"


@cache
def spec_of(name: str) -> ModelSpec:
    """The description of a model that cases may name. Errors: Refused for any other name, paths included."""
    own = own_names()
    if name in own:
        table = {"name": name, **_tables()[name]}
        kind = ModelSpec if "layers" in table else Shorthand
        spec = kind.model_validate_json(json.dumps(table))
        return spec if isinstance(spec, ModelSpec) else spec.expand()
    if name not in preset_names():
        known = (*own, *preset_names())
        raise Refused("model", f"a preset or one of {', '.join(own)}{did_you_mean(name, known)}", name)
    return load_model(name)


def routed(spec: ModelSpec) -> bool:
    """Whether tokens choose experts, so that shapes depend on what the tokens are."""
    return any(stack.has_experts for stack in spec.stacks)


def own_names() -> tuple[str, ...]:
    """The names of the models that are no presets."""
    return tuple(_tables())


@cache
def _tables() -> dict[str, Any]:
    return parse_toml(read_text(MODELS), MODELS.name)
