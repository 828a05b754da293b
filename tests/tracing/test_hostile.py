"""Configs that nobody vouches for: refused in one line, and nothing of theirs is run or fetched."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import calc
from calc.architectures import traceable
from calc.errors import Refused
from calc.tracing.loading import load_traced

SMALL = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 97,
}


def refusal(tmp_path: Path, raw: Any) -> str:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(raw))
    with pytest.raises(Refused) as caught:
        load_traced(str(file))
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 2500
    return text


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model_type": "no_such_type"}, "model_type"),
        ({"model_type": None}, "model_type"),
        ({"model_type": ["llama"]}, "model_type"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"hidden_size": 10**30}, "hidden_size"),
        ({"hidden_size": -4}, "config"),
        ({"hidden_size": "x" * 5000}, "config"),
        ({"hidden_size": {"a": [1]}}, "config"),
        ({"architectures": ["os"]}, "architectures"),
        ({"architectures": ["GPT2LMHeadModel"]}, "architectures"),
        ({"architectures": ["LlamaForCausalLM", "LlamaModel"]}, "architectures"),
        ({"hidden_act": "no such function\nand a line"}, "config"),
        ({"use_pretrained_backbone": True}, "use_pretrained_backbone"),
        ({"words": list(range(200_000))}, "config"),
    ],
)
def test_a_hostile_config_is_refused(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    assert refusal(tmp_path, SMALL | change).startswith(field)


def test_what_is_no_config_is_refused(tmp_path: Path) -> None:
    assert "config.json" in refusal(tmp_path, [1, 2])
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(Refused):
        load_traced(str(tmp_path / "broken.json"))
    with pytest.raises(Refused, match="MODEL"):
        load_traced("no such model at all")


def test_code_that_comes_with_a_model_is_not_run(tmp_path: Path) -> None:
    """Nor a kernel fetched, nor weights unpacked: the class is transformers' own, whatever the config asks for."""
    (tmp_path / "modeling_evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    asks = {
        "auto_map": {"AutoModelForCausalLM": "modeling_evil.Evil", "AutoConfig": "modeling_evil.Evil"},
        "trust_remote_code": True,
        "attn_implementation": "kernels-community/flash-attn",
        "_attn_implementation": "kernels-community/flash-attn",
        "experts_implementation": "kernels-community/moe",
        "quantization_config": {"quant_method": "gptq", "bits": 4},
        "_name_or_path": str(tmp_path),
    }
    (tmp_path / "config.json").write_text(json.dumps(SMALL | asks))
    model = load_traced(str(tmp_path / "config.json"))
    assert not (tmp_path / "ran").exists()
    assert calc.estimate(model, "params").value == calc.estimate(calc.from_config(SMALL), "params").value


def test_the_refusal_of_an_unknown_type_names_the_command_where_transformers_knows_it(tmp_path: Path) -> None:
    from transformers.models.auto import configuration_auto

    known: Any = configuration_auto
    assert traceable() == set(known.CONFIG_MAPPING_NAMES)
    unread = next(name for name in sorted(traceable()) if name not in calc.FAMILIES)
    for model_type, named in ((unread, True), ("no_such_type", False)):
        with pytest.raises(Refused) as caught:
            calc.from_config({"model_type": model_type})
        assert ("python -m calc report MODEL --traced" in str(caught.value)) is named
    file = tmp_path / "a model.json"
    file.write_text(json.dumps({"model_type": unread}))
    with pytest.raises(Refused, match=re.escape(f"python -m calc report '{file}' --traced")):
        calc.load_model(file)
