"""Every model of the reference file, to the integer: parameters, FLOPs and KV cache against real implementations."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import pytest

from calc.architectures import FAMILIES, from_config
from calc.quantities.flops import forward, training
from calc.quantities.kv_cache import kv_cache
from calc.quantities.parameters import by_tower, parameters, weights
from calc.spec import ModelSpec
from calc.spec.load import Load
from tests import reference
from tests.architectures.renaming import compare

RECORDS = [record for record in reference.models() if record["model_type"] in FAMILIES]
# transformers broadcasts these models' keys and values to all heads before it caches them; we count the grouped cache.
BROADCAST = {"falcon-180b"}

# A scan padded to whole chunks is no line plus a square: no valid fit, but what runs is counted all the same.
# So it is with entries that stand for several tokens.
CHUNKED = {"deepseek_v4", "mamba2", "nemotron_h", "qwen3_next", "qwen3_5", "qwen3_5_moe"}

# The loss of this record reads the last vectors alone: its pooler, one dense layer of 1280 x 1280, gets no gradient.
UNREAD_POOLER = {"vit-huge-patch14-224-in21k": 2 * 2 * 1280 * 1280}

ABSENT = pytest.param({}, marks=pytest.mark.skip(reason=reference.ABSENT), id="reference")


def each(wanted: Callable[[dict[str, Any]], Any] = lambda record: True) -> pytest.MarkDecorator:
    """Every record that has what is wanted; one that is skipped with the reason where the data is absent."""
    records = [pytest.param(record, id=record["name"]) for record in RECORDS if wanted(record)]
    return pytest.mark.parametrize("record", records or [ABSENT])


each_model = each()


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


@each(lambda record: "text_total" in record["params"])
def test_text_and_vision_apart(record: dict[str, Any]) -> None:
    params = record["params"]
    spec = spec_of(record["name"])
    vision = params["total"] - params["text_total"]
    assert by_tower(parameters(spec), parameters(spec, active=True)) == {
        "text": params["text_total"],
        "active_text": params.get("active_text", params["active"] - vision),
        "vision": vision,
    }


@each(lambda record: "total_untied" in record["params"])
def test_heads_that_only_the_checkpoint_holds_apart(record: dict[str, Any]) -> None:
    spec = from_config(reference.config(record["name"]), record["name"], tying="checkpoint")
    assert sum(parameters(spec).values()) == record["params"]["total_untied"]


@each_model
def test_every_group_of_tensors(record: dict[str, Any]) -> None:
    theirs: dict[str, int] = {}
    for key, group in record["params"]["param_groups"].items():
        name, shape = key.rstrip("]").split(" [")
        theirs[name] = theirs.get(name, 0) + prod(map(int, filter(None, shape.split(",")))) * group["n"]
    ours: dict[str, int] = {}
    for path, weight, leaf in weights(spec_of(record["name"])):
        path = re.sub(r"\{\w*\}", "{}", path)
        ours[path] = ours.get(path, 0) + weight.elements * leaf.copies
    assert compare(theirs, ours, record["model_type"]) == {}


def _counted_for_tokens(record: dict[str, Any]) -> bool:
    flops = record["flops"]
    clean = flops.get("fit", {"valid": True})["valid"] or record["model_type"] in CHUNKED
    return "fwd" not in flops and clean


@each(_counted_for_tokens)
def test_flops(record: dict[str, Any]) -> None:
    flops = record["flops"]
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


@each(lambda record: "fwd" in record["flops"])
def test_flops_of_pictures_and_sound(record: dict[str, Any]) -> None:
    """One picture (and one text) or one second of sound, as the record's `input` says."""
    flops = record["flops"]
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


@each(lambda record: "trainable" in record["params"])
def test_trainable(record: dict[str, Any]) -> None:
    rows = weights(spec_of(record["name"]))
    assert (
        sum(weight.elements * leaf.copies for _, weight, leaf in rows if weight.trainable)
        == record["params"]["trainable"]
    )


@each(lambda record: "self" in record.get("kv_cache_fp16", {}))
def test_kv_cache(record: dict[str, Any]) -> None:
    spec, cache_record = spec_of(record["name"]), record["kv_cache_fp16"]
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
