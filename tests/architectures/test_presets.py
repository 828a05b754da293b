"""The presets' parameters against transformers' own named parameters, path by path."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calc.architectures.models import PRESETS, load_model, preset_names  # noqa: E402
from calc.quantities.parameters import parameter_shapes  # noqa: E402
from calc.reading.files import parse_toml  # noqa: E402
from tests.architectures.renaming import compare, named_parameters  # noqa: E402

CONFIGS: dict[str, dict[str, Any]] = {
    name: parse_toml((PRESETS / f"{name}.toml").read_text(), name).get("config", {}) for name in preset_names()
}
THEIR_NAME = {"kimi_k2": "deepseek_v3"}
"""Families that transformers knows under another name."""
DESCRIBED = [name for name, config in CONFIGS.items() if config and config["model_type"] != "rwkv7"]
"""Presets with a config; transformers has no class for RWKV-7's, of which the makers' own count is held to the last
parameter."""


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_preset_is_the_model_transformers_builds(name: str) -> None:
    config = dict(CONFIGS[name])
    config["model_type"] = THEIR_NAME.get(config["model_type"], config["model_type"])
    # Which tokens are special changes no shape, and some families' defaults lie outside other vocabularies.
    special = {"pad_token_id": None, "bos_token_id": 1, "eos_token_id": 1}
    with torch.device("meta"):
        parsed = transformers.AutoConfig.for_model(**(special | config))
        named = [getattr(transformers, name) for name in config.get("architectures", ())]
        model = named[0](parsed) if named else transformers.AutoModelForCausalLM.from_config(parsed)
    theirs = {path: parameter.numel() for path, parameter in named_parameters(model)}
    ours = {path: prod(shape) for path, shape in parameter_shapes(load_model(name)).items()}
    assert compare(theirs, ours, config["model_type"]) == {}
