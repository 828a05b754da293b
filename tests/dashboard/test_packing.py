"""Descriptions in links."""

from __future__ import annotations

import json
import zlib
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.architectures import from_config
from calc.errors import Refused
from dashboard import packing

VIT = {
    "model_type": "vit",
    "architectures": ["ViTForImageClassification"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "image_size": 32,
    "patch_size": 16,
}


@given(st.text(max_size=2000))
def test_what_is_packed_comes_back(text: str) -> None:
    packed = packing.pack(text)
    if packed is not None:
        assert packing.unpack(packed) == text
        assert packed.isascii()
        assert not set(packed) - set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(st.text(max_size=200))
def test_anything_else_is_refused(text: str) -> None:
    try:
        packing.unpack(text)
    except Refused as refusal:
        assert "\n" not in str(refusal)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = urlsafe_b64encode(zlib.compress(b"0" * 2 * 10**6, 9)).decode()
    assert len(bomb) <= packing.MAX_PACKED  # two megabytes in a link
    with pytest.raises(Refused, match="at most 256 KiB"):
        packing.unpack(bomb)


@pytest.mark.parametrize("labels", [1000, 1, 0])
@pytest.mark.parametrize("number", ["absent", "null", "given"])
def test_names_of_classes_stay_behind_and_their_number_travels(labels: int, number: str) -> None:
    config = VIT | {"id2label": {str(n): f"class {n * n:x}, or as some say {n:b}" for n in range(labels)}}
    config["label2id"] = {name: int(n) for n, name in config["id2label"].items()}
    if not labels:
        config = dict(VIT)
    if number == "given":
        config["num_labels"] = labels or 7
    elif number == "null" and labels:
        config["num_labels"] = None
    packed = packing.pack(packing.compact(json.dumps(config), "json"))
    assert packed is not None
    assert len(packed) < 400
    spec = from_config(config, "model")
    assert from_config(json.loads(packing.unpack(packed)), "model") == spec
    assert any("num_labels" in str(note) for note in spec.notes) == (not labels and number != "given")


def test_what_the_importer_refuses_is_refused_from_a_link_too() -> None:
    for more in ({"num_labels": 3}, {"num_labels": True}, {"num_labels": 1.0}):
        config = VIT | {"id2label": {"0": "a"}} | more
        for text in (json.dumps(config), packing.compact(json.dumps(config), "json")):
            with pytest.raises(Refused, match="num_labels"):
                from_config(json.loads(text), "model")


def test_json_travels_without_its_spaces() -> None:
    assert packing.compact('{\n  "a": [1, 2]\n}', "json") == '{"a":[1,2]}'
    assert packing.compact("a = 1\n", "toml") == "a = 1\n"
