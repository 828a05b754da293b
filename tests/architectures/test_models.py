"""Finding a model, and refusing what is none."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import calc
from calc.architectures.models import PRESETS, config_of, from_toml
from calc.quantities.parameters import parameters
from calc.reading.files import parse_json, parse_toml

GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024}


PUBLISHED = {
    name: parse_toml((PRESETS / f"{name}.toml").read_text(), name).get("published") for name in calc.preset_names()
}


@pytest.mark.parametrize("name", [name for name, published in PUBLISHED.items() if published])
def test_presets_match_what_was_published(name: str) -> None:
    """To the integer where the publication is exact; `within` says how far off one in millions may be."""
    published = PUBLISHED[name]
    total = sum(parameters(calc.load_model(name)).values())
    assert total == pytest.approx(published["params"], rel=published.get("within", 0), abs=0)


def test_the_promised_presets_are_there() -> None:
    promised = """gpt2 gpt2-medium gpt2-large gpt2-xl gpt3-175b llama-2-7b llama-2-70b llama-3-8b llama-3-70b
    llama-3.1-405b mistral-7b mixtral-8x7b qwen3-8b qwen3-30b-a3b gemma-2-9b gpt-oss-20b"""
    assert set(promised.split()) <= set(calc.preset_names())


def test_a_config_file_is_named_after_itself_or_its_folder(tmp_path: Path) -> None:
    (tmp_path / "My-Model").mkdir()
    for path in (tmp_path / "My-Model" / "config.json", tmp_path / "My-Model.json"):
        path.write_text(json.dumps(GPT2))
        spec = calc.load_model(str(path))
        assert (spec.name, spec.family) == ("My-Model", "gpt2")
        assert sum(parameters(spec).values()) == 124_439_808


def test_a_toml_description_says_the_same_three_ways(tmp_path: Path) -> None:
    short = """
        d_model = 768
        n_layers = 12
        n_heads = 12
        vocab_size = 50257
        max_seq_len = 1024
    """
    full = """
        d_model = 768
        vocab_size = 50257
        [embedding]
        n_positions = 1024
        [final_norm]
        kind = "layernorm"
        bias = true
        [head]
        tied = true
        [[layers]]
        count = 12
        norm = { kind = "layernorm", bias = true }
        mixer = { n_heads = 12, qkv_bias = true, out_bias = true, position = "none" }
        channel = { kind = "mlp", bias = true }
    """
    config = "[config]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in GPT2.items())
    for text in (short, full, config):
        path = tmp_path / "model.toml"
        path.write_text(text)
        assert sum(parameters(calc.load_model(str(path))).values()) == 124_439_808


def described(layer: str, head: str = "") -> str:
    """A small description: one layer of this, and this head."""
    return f"d_model = 8\nvocab_size = 9\nheads = [{head}]\n[[layers]]\ncount = 1\n{layer}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("d_model = 0", "d_model: expected greater than 0, found 0"),
        ("d_model = 1.5", "d_model: expected a valid integer, found 1.5"),
        ("d_model = true", "d_model: expected a valid integer, found true"),
        ("d_model = nan", "finite numbers"),
        ("d_model = 3000000000", "d_model: expected less than or equal to 2147483648"),
        ("d_modell = 8", "d_modell: expected no such field"),
        ("d_model = 2020-01-01", "d_model: expected a valid integer"),
        (
            "d_model = 8\nn_layers = 200000\nn_heads = 1\nvocab_size = 1",
            "n_layers: expected less than or equal to 100000",
        ),
        ("d_model = 8\nn_layers = 1\nn_heads = 3\nvocab_size = 1\nmax_seq_len = 8", "n_heads: expected a divisor"),
        (
            "d_model = 8\nn_layers = 1\nn_heads = 4\nn_kv_heads = 3\nvocab_size = 1\nmax_seq_len = 8",
            "n_kv_heads: expected a divisor",
        ),
        ("d_model = 8\nn_layers = 1\nn_heads = 4\nvocab_size = 1", "max_seq_len: expected the rows"),
        (described("mixer = { n_heads = 2, n_kv_heads = 3 }"), "x.toml: layers.0.mixer.attention.n_kv_heads: expected"),
        ("[config]\nmodel_type = 'gpt2'\nn_head = 0", "n_head: expected a whole number"),
        ("d_model =", "expected TOML"),
        ("config = 3", "config: expected a table, found 3"),
        ("x = " + "[" * 5000 + "]" * 5000, "too deep"),
        ("[config]\nmodel_type = 'gpt2'\n[extra]", "extra: expected one of"),
        (described("cross = { n_heads = 2, fused = true }"), "cross.fused: expected the default"),
        (described("cross = { n_heads = 2, position = 'alibi' }"), "cross.position: expected added or none"),
        (described("mixer = { n_heads = 2, kv = 'earlier' }"), "kv: expected a layer before it"),
        (described("mixer = { n_heads = 2, fused = true, rope = { inputs = true } }"), "rope.inputs: expected false"),
        (
            described(
                "mixer = { kind = 'mla', n_heads = 2, kv_rank = 4, d_nope = 4, d_rope = 2, d_value = 4, top_k = 3 }"
            ),
            "indexer: expected one in this layer",
        ),
        (
            described("channel = { kind = 'moe', n_experts = 4, top_k = 1, d_expert = 8, scoring = 'sparsemixer' }"),
            "top_k: expected 2 beside sparsemixer",
        ),
        (described("", "{ name = 'a', per = 'sequence', merge = 2 }"), "merge: expected 1"),
        (described("", "{ name = 'a', every = 3, offset = 3 }"), "offset: expected less than every = 3"),
        (described("", "{ name = 'a', reads = 'b' }"), "a.reads: expected a head before it (none)"),
    ],
)
def test_refused_toml(text: str, message: str) -> None:
    with pytest.raises(calc.Refused) as refusal:
        from_toml(text, "x.toml", "x")
    assert message in str(refusal.value)
    assert str(refusal.value).startswith("x.toml: ")  # of several files, the one that holds it
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "a JSON object, found a list of 1"),
        ('{"a": 1, "a": 2}', "a: expected each key once"),
        ('{"a": ' + "[" * 100_000, "too deep"),
        ('{"a": ' + "9" * 5000 + "}", "thousands of digits"),
        ('{"a": 1,}', "line 1"),
        ("", "line 1"),
    ],
)
def test_refused_json(text: str, message: str) -> None:
    with pytest.raises(calc.Refused) as refusal:
        parse_json(text, "config.json")
    assert message in str(refusal.value)


@given(st.text(max_size=200))
def test_any_text_is_an_object_or_refused(text: str) -> None:
    for parse in (parse_json, parse_toml):
        try:
            assert isinstance(parse(text, "x"), dict)
        except calc.Refused as refusal:
            assert "\n" not in str(refusal)


def test_a_folder_is_its_config(tmp_path: Path) -> None:
    """As people who load a checkpoint from disk name it."""
    raw, _ = config_of("llama-3-8b")
    (tmp_path / "own").mkdir()
    file = tmp_path / "own" / "config.json"
    file.write_text(json.dumps(raw))
    assert calc.load_model(tmp_path / "own") == calc.load_model(file)
    assert config_of(tmp_path / "own") == (raw, "own")


def test_refused_files(tmp_path: Path) -> None:
    big = tmp_path / "big.json"
    big.write_bytes(b" " * (16 * 2**20 + 1))
    binary = tmp_path / "binary.json"
    binary.write_bytes(b'{"a": "\xff"}')
    for reference, message in (
        (str(tmp_path), "config.json: expected a file, found no such file"),
        (str(big), "at most 16 MB"),
        (str(binary), "byte 0xff at 7"),
        (str(tmp_path / "none.json"), "no such file"),
        ("", "a preset, a path to a .json"),
        ("a\0b", "a preset, a path to a .json"),
        ("a\0b.json", "expected a file"),
        ("a" * 300, "a preset, a path to a .json"),
        ("lama-3-8b", "did you mean llama-3-8b"),
        ("/dev/null", "expected a file, found something else"),
    ):
        with pytest.raises(calc.Refused) as refusal:
            calc.load_model(reference)
        assert message in str(refusal.value)


def test_an_unknown_family_is_refused_by_name() -> None:
    for raw, found in (({"model_type": "nonsense"}, "nonsense"), ({}, "nothing"), ({"model_type": ["gpt2"]}, "a list")):
        with pytest.raises(calc.Refused) as refusal:
            calc.from_config(raw)
        assert refusal.value.field == "model_type"
        assert found in refusal.value.found


def test_a_hub_id_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(calc.Refused, match=r"pip install -e '\.\[hub\]' in a clone"):
        calc.load_model("openai-community/gpt2")
