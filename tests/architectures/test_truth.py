"""Every model of the reference file, to the integer: parameters, FLOPs and KV cache against real implementations."""

from __future__ import annotations

import re
from functools import cache
from math import prod
from typing import Any

import pytest

from calc.architectures import FAMILIES, from_config
from calc.load import Load
from calc.quantities.flops import forward
from calc.quantities.kv_cache import kv_cache
from calc.quantities.parameters import parameters, weights
from calc.spec import ModelSpec
from tests import reference
from tests.architectures.renaming import compare

RECORDS = [record for record in reference.models() if record["model_type"] in FAMILIES]
# transformers broadcasts these models' keys and values to all heads before it caches them; we count the grouped cache.
BROADCAST = {"falcon-180b"}

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
    if not flops["fit"]["valid"]:
        pytest.skip(f"not a clean count: {flops['fit']['note']}")
    spec = spec_of(record["name"])
    assert forward(spec, Load(seq=128)).total == flops["fwd_128"]["total"]
    assert forward(spec, Load(seq=512)).total == flops["fwd_512"]["total"]
    assert forward(spec, Load(seq=1, context=512)).total == flops["decode_512"]["total"]


@each_model
def test_kv_cache(record: dict[str, Any]) -> None:
    spec, cache_record = spec_of(record["name"]), record["kv_cache_fp16"]
    s1, s2 = cache_record["S1"], cache_record["S2"]
    at_s1, at_s2 = (kv_cache(spec, 1, s, "fp16", "cache").total_bytes for s in (s1, s2))
    per_token = cache_record["self"]["bytes_per_token_total"]
    if record["name"] in BROADCAST:
        per_token = cache_record["formula_2*kvh*hd*2B_per_layer"] * cache_record["self"]["layers"]
    assert at_s2 - at_s1 == per_token * (s2 - s1)
    if long := cache_record.get("long"):
        assert kv_cache(spec, 1, long["S"], "fp16", "cache").total_bytes == long["bytes_total"]
    if static := cache_record.get("static_8192"):
        assert kv_cache(spec, 1, 8192, "fp16", "tokens").total_bytes == static["bytes_total"]
