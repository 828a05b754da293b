"""Every model of the reference file, to the integer: parameters, FLOPs and KV cache against real implementations."""

from __future__ import annotations

import re
from functools import cache
from math import prod
from typing import Any

import pytest

from calc.architectures import FAMILIES, from_config
from calc.load import Load
from calc.quantities.flops import forward, training
from calc.quantities.kv_cache import kv_cache
from calc.quantities.parameters import by_tower, parameters, weights
from calc.spec import ModelSpec
from tests import reference
from tests.architectures.renaming import compare

RECORDS = [record for record in reference.models() if record["model_type"] in FAMILIES]
# transformers broadcasts these models' keys and values to all heads before it caches them; we count the grouped cache.
BROADCAST = {"falcon-180b"}

# A scan padded to whole chunks is no line plus a square: no valid fit, but what runs is counted all the same.
CHUNKED = {"mamba2", "nemotron_h", "qwen3_next", "qwen3_5", "qwen3_5_moe"}

# The loss of this record reads the last vectors alone: its pooler, one dense layer of 1280 x 1280, gets no gradient.
UNREAD_POOLER = {"vit-huge-patch14-224-in21k": 2 * 2 * 1280 * 1280}

each_model = pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["name"])


@cache
def spec_of(name: str) -> ModelSpec:
    return from_config(reference.config(name), name)


def test_reference_is_there() -> None:
    """Says why nothing below ran, where the reference data is absent."""
    reference.folder()
    assert RECORDS


@each_model
def test_total_and_active(record: dict[str, Any]) -> None:
    spec = spec_of(record["name"])
    assert sum(parameters(spec).values()) == record["params"]["total"]
    assert sum(parameters(spec, active=True).values()) == record["params"]["active"]


@each_model
def test_text_and_vision_apart(record: dict[str, Any]) -> None:
    params = record["params"]
    if "text_total" not in params:
        pytest.skip("this model has no tower of vision beside one of text")
    spec = spec_of(record["name"])
    vision = params["total"] - params["text_total"]
    assert by_tower(parameters(spec), parameters(spec, active=True)) == {
        "text": params["text_total"],
        "active_text": params.get("active_text", params["active"] - vision),
        "vision": vision,
    }


@each_model
def test_every_group_of_tensors(record: dict[str, Any]) -> None:
    theirs: dict[str, int] = {}
    for key, group in record["params"]["param_groups"].items():
        name, shape = key.rstrip("]").split(" [")
        theirs[name] = theirs.get(name, 0) + prod(map(int, shape.split(","))) * group["n"]
    ours: dict[str, int] = {}
    for path, weight, leaf in weights(spec_of(record["name"])):
        path = re.sub(r"\{\w*\}", "{}", path)
        ours[path] = ours.get(path, 0) + weight.elements * leaf.copies
    assert compare(theirs, ours, record["model_type"]) == {}


@each_model
def test_flops(record: dict[str, Any]) -> None:
    flops = record["flops"]
    if "fwd" in flops:
        pytest.skip("no tokens to count for")
    if not flops.get("fit", {"valid": True})["valid"] and record["model_type"] not in CHUNKED:
        pytest.skip(f"not a clean count: {flops['fit']['note']}")
    spec = spec_of(record["name"])
    # Whisper's decoder takes no more tokens than it has positions for, and was run with those.
    longest = min(512, spec.max_seq_len or 512) if record["model_type"] == "whisper" else 512
    # transformers runs all of Llama 4's experts on all tokens; `sparse_total` is what the visited ones alone do.
    fwd_128, fwd_512 = (flops[key].get("sparse_total", flops[key]["total"]) for key in ("fwd_128", "fwd_512"))
    assert forward(spec, Load(seq=128)).total == fwd_128
    assert forward(spec, Load(seq=longest)).total == fwd_512
    if both := flops.get("fwdbwd_512"):
        assert training(spec, Load(seq=longest)).total == both["total"]
    if one := flops.get("decode_512"):
        assert forward(spec, Load(seq=1, context=512, decode=True)).total == one.get("sparse_total", one["total"])


@each_model
def test_flops_of_pictures_and_sound(record: dict[str, Any]) -> None:
    """One picture (and one text) or one second of sound, as the record's `input` says."""
    flops = record["flops"]
    if "fwd" not in flops:
        pytest.skip("counted for tokens")
    spec, given = spec_of(record["name"]), flops["input"]
    load = Load(
        seq=given["input_ids"][1] if "input_ids" in given else 1,
        images=1,
        image=tuple(given["pixel_values"][2:]) if "pixel_values" in given else None,
        source=given["input_values"][1] if "input_values" in given else None,
    )
    assert forward(spec, load).total == flops["fwd"]["total"]
    if both := flops.get("fwdbwd"):
        unread = UNREAD_POOLER.get(record["name"], 0)
        assert training(spec, load).total - unread == both["total"]


@each_model
def test_trainable(record: dict[str, Any]) -> None:
    if (trainable := record["params"].get("trainable")) is None:
        pytest.skip("the record does not say")
    rows = weights(spec_of(record["name"]))
    assert sum(weight.elements * leaf.copies for _, weight, leaf in rows if weight.trainable) == trainable


@each_model
def test_kv_cache(record: dict[str, Any]) -> None:
    spec, cache_record = spec_of(record["name"]), record.get("kv_cache_fp16", {})
    if "self" not in cache_record:
        pytest.skip(cache_record.get("note", "this model keeps no cache"))
    s1, s2 = cache_record["S1"], cache_record["S2"]
    # Whisper reads as much sound as it is made for, whatever the text; other encoders as many tokens as are asked for.
    source = None if record["model_type"] == "whisper" else s1
    at_s1, at_s2 = (kv_cache(spec, 1, s, "fp16", "cache", source=source).total_bytes for s in (s1, s2))
    per_token = cache_record["self"]["bytes_per_token_total"]
    if record["name"] in BROADCAST:
        per_token = cache_record["formula_2*kvh*hd*2B_per_layer"] * cache_record["self"]["layers"]
    assert at_s2 - at_s1 == per_token * (s2 - s1)
    if constant := cache_record["self"].get("constant_state_bytes_total"):
        assert at_s1 - per_token * s1 == constant
    if cross := cache_record.get("cross"):
        longer = kv_cache(spec, 1, s1, "fp16", "cache", source=source and s2).total_bytes
        assert at_s1 - per_token * s1 == cross["constant_state_bytes_total"] or source is not None
        assert longer - at_s1 == cross["bytes_per_token_total"] * (s2 - s1)
    if long := cache_record.get("long"):
        assert kv_cache(spec, 1, long["S"], "fp16", "cache").total_bytes == long["bytes_total"]
    if static := cache_record.get("static_8192"):
        assert kv_cache(spec, 1, 8192, "fp16", "tokens").total_bytes == static["bytes_total"]
