"""What autograd keeps, against measured records of transformers' own models (truth/activations.json)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from calc.architectures import from_config
from calc.quantities.saved_tensors import SavedTensors, saved_tensors
from calc.spec import ModelSpec
from calc.spec.load import Load
from calc.trace.settings import Settings
from tests import reference
from tests.architectures.test_truth import ABSENT

FORMATS = {"float32": "fp32", "bfloat16": "bf16"}
FLOATS = {"fp32": 4, "bf16": 2}


@cache
def records() -> list[dict[str, Any]]:
    found = reference.find()
    return [] if found is None else json.loads((found / "truth" / "activations.json").read_text())["records"]


def config(record: dict[str, Any]) -> dict[str, Any]:
    """The Hugging Face config that the record's model was built from, as its geometry says."""
    g = record["geometry"]
    if record["family"].startswith("gpt2"):
        return {
            "model_type": "gpt2",
            "n_embd": g["h"],
            "n_head": g["H"],
            "n_layer": record["layers"],
            "vocab_size": g["V"],
        }
    common = {
        "hidden_size": g["h"],
        "num_attention_heads": g["H"],
        "num_hidden_layers": record["layers"],
        "vocab_size": g["V"],
    }
    if record["family"] == "bert":
        return {**common, "model_type": "bert", "intermediate_size": 4 * g["h"], "architectures": ["BertForMaskedLM"]}
    kv = {"num_key_value_heads": g["KV"], "intermediate_size": g["I"], "tie_word_embeddings": g.get("tie", False)}
    return {
        **common,
        **kv,
        "model_type": "llama",
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 2048,
    }


def settings(record: dict[str, Any]) -> Settings:
    dtype = "bf16" if record["amp_bf16"] else FORMATS[record["dtype"]]
    return Settings(record["attn"], dtype, record["amp_bf16"], dropout=record["dropout"] or 0.0, device="cpu")


def saved_bytes(made: SavedTensors, record: dict[str, Any]) -> int:
    """What the record's hook saw. Under checkpointing it sees each layer's input, and what is handed to layers by
    position: GPT-2's causal mask, which only eager attention makes."""
    outside = [*made.front, *made.end, *(made.loss if record["labels"] else ())]
    total = sum(saved.tensor.bytes for saved in outside)
    if not record["checkpoint"]:
        layers = (each.count * sum(saved.tensor.bytes for saved in each.saved) for each in made.layers.values())
        return total + sum(saved.tensor.bytes for saved in made.common) + sum(layers)
    total += sum(each.count * each.input.bytes for each in made.layers.values())
    if record["family"].startswith("gpt2") and record["attn"] == "eager":
        total += record["batch"] * record["seq"] ** 2 * FLOATS[FORMATS[record["dtype"]]]
    return total


def name(record: dict[str, Any]) -> str:
    words = [record["family"], record["attn"], FORMATS[record["dtype"]]]
    words += (
        ["amp"] * record["amp_bf16"] + ["checkpoint"] * record["checkpoint"] + ["dropout"] * bool(record["dropout"])
    )
    return "-".join([*words, *(f"{key[0]}{record[key]}" for key in ("layers", "batch", "seq"))])


@pytest.mark.parametrize("record", [pytest.param(r, id=name(r)) for r in records()] or [ABSENT])
def test_bytes_kept_for_backward(record: dict[str, Any]) -> None:
    """To the byte but for indices: positions that are buffers, and targets that lie in a padded tensor or are the
    inputs themselves (at most four numbers of 8 bytes for each token)."""
    spec: ModelSpec = from_config(config(record), record["family"])
    made = saved_tensors(spec, Load(batch=record["batch"], seq=record["seq"]), settings(record))
    indices = 4 * 8 * record["batch"] * record["seq"]
    assert abs(saved_bytes(made, record) - record["saved_bytes"]) <= indices
    assert saved_bytes(made, record) == pytest.approx(record["saved_bytes"], rel=0.01)


def test_one_storage_explains_the_batch_of_one() -> None:
    """GPT-2's queries, keys and values lie in one tensor. With several sequences a plain attention copies each, and
    with one it keeps the whole of it: the fallback of PyTorch's kernel on the CPU then keeps 2/3 more of it."""
    spec = from_config(config({"family": "gpt2", "layers": 1, "geometry": {"h": 64, "H": 2, "V": 100}}), "gpt2")
    how = Settings("sdpa", "fp32", dropout=0.1, device="cpu")

    def layer(batch: int) -> int:
        (each,) = saved_tensors(spec, Load(batch=batch, seq=16), how).layers.values()
        return sum(saved.tensor.bytes for saved in each.saved)

    assert 2 * layer(1) - layer(2) == 2 * (3 - 1) * 16 * 64 * 4
