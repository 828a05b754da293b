"""The model picker: presets, own descriptions and shorthands, links that reproduce them, and hostile ones refused."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import calc
from calc.units import si
from dashboard import packing, picker, shorthand
from tests.dashboard.opening import cli, errors, metrics, opened, sound

TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}


def address(at: AppTest) -> dict[str, str]:
    """What stands in the address of the description."""
    found = {name: at.query_params[name] for name in ("spec", "file") if name in at.query_params}
    return {name: value if isinstance(value, str) else value[0] for name, value in found.items()}


def uploaded(name: str, data: bytes) -> AppTest:
    """The Model page after an upload."""
    at = opened("model", **{"from": "Config"})
    at.file_uploader(key="upload").set_value((name, data, "application/json"))
    return sound(at.run())


def refused(at: AppTest) -> str:
    """The one message, once, on a page that shows no figures and nothing else."""
    (message,) = errors(at)
    assert metrics(at) == {}
    assert not at.info
    assert message.startswith("This model cannot be read: `")
    assert "\n" not in message
    assert len(message) < 400
    return message


def test_an_uploaded_config_is_counted_as_the_command_line_counts_it(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(TINY))
    at = uploaded("config.json", file.read_bytes())
    (printed,) = cli("params", str(file))
    assert metrics(at)["Parameters"] == si(printed["total"])
    assert at.code[0].value.splitlines()[1] == "python -m calc params config.json"


def test_a_pasted_description_in_toml(tmp_path: Path) -> None:
    text = "d_model = 64\nn_layers = 2\nn_heads = 4\nvocab_size = 1000\nmax_seq_len = 128\n"
    at = opened("model", **{"from": "Config"})
    assert any(each.value.startswith("No model is read yet. Paste or upload") for each in at.info)
    sound(at.text_area(key="pasted").set_value(text).run())
    (tmp_path / "model.toml").write_text(text)
    assert metrics(at)["Parameters"] == si(cli("params", str(tmp_path / "model.toml"))[0]["total"])


def test_a_link_to_an_own_description_shows_the_same_to_somebody_else() -> None:
    at = uploaded("config.json", json.dumps(TINY, indent=4).encode())
    packed = address(at)["spec"]
    assert len(packed) <= packing.MAX_PACKED
    other = opened("model", **{"from": "Config", "spec": packed})
    assert metrics(other) == metrics(at)
    # The same on another page.
    assert opened("memory", **{"from": "Config", "spec": packed}).metric


def test_a_description_too_long_for_a_link_is_asked_for() -> None:
    import random

    random.seed(1)
    notes = "".join(random.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=9000))
    at = uploaded("config.json", json.dumps({**TINY, "_name_or_path": notes}).encode())
    assert metrics(at)["Parameters"]
    assert "spec" not in at.query_params
    assert any("Too long for a link" in each.value for each in at.caption)
    other = opened("model", **{"from": "Config", "file": str(at.query_params["file"])})
    assert "upload that file" in other.warning[0].value
    assert metrics(other) == {}
    other.file_uploader(key="upload").set_value(("config.json", json.dumps(TINY).encode(), "application/json"))
    assert any("not the file that the link was made with" in each.value for each in sound(other.run()).warning)


def test_what_is_changed_forgets_what_was_there() -> None:
    at = opened("model", **{"from": "Config"})
    good = json.dumps(TINY)
    sound(at.text_area(key="pasted").set_value(good).run())
    assert errors(at) == []
    assert address(at)
    sound(at.text_area(key="pasted").set_value(good[:-1]).run())
    assert "expected JSON" in refused(at)
    assert address(at) == {}
    sound(at.text_area(key="pasted").set_value("").run())
    assert (errors(at), metrics(at), address(at)) == ([], {}, {})
    at.file_uploader(key="upload").set_value(("config.json", good.encode(), "application/json"))
    sound(at.run())
    assert metrics(at)
    assert "spec" in address(at)
    at.file_uploader(key="upload").set_value(("config.json", good[:-1].encode(), "application/json"))
    assert "expected JSON" in refused(sound(at.run()))
    assert address(at) == {}


def test_of_box_and_upload_the_last_counts() -> None:
    wider = json.dumps({**TINY, "hidden_size": 128})
    at = uploaded("config.json", json.dumps(TINY).encode())
    first = metrics(at)["Parameters"]
    sound(at.text_area(key="pasted").set_value(wider).run())
    second = metrics(at)["Parameters"]
    assert first != second
    assert any(each.value == "What is pasted counts, not the file." for each in at.caption)
    sound(at.text_area(key="pasted").set_value("").run())
    assert metrics(at)["Parameters"] == first
    sound(at.text_area(key="pasted").set_value(wider).run())
    at.file_uploader(key="upload").set_value(("other.json", json.dumps(TINY).encode(), "application/json"))
    sound(at.run())
    assert metrics(at)["Parameters"] == first
    assert at.text_area(key="pasted").value == ""


@pytest.mark.parametrize("text", [json.dumps(TINY), '{"model_type": "lama"}'], ids=["good", "refused"])
def test_what_was_pasted_is_there_again_after_a_preset(text: str) -> None:
    at = opened("model", **{"from": "Config"})
    sound(at.text_area(key="pasted").set_value(text).run())
    before = metrics(at), errors(at), address(at)
    sound(at.segmented_control(key="from").set_value("Preset").run())
    assert errors(at) == []
    assert address(at) == {}
    sound(at.segmented_control(key="from").set_value("Config").run())
    assert (metrics(at), errors(at), address(at)) == before
    assert at.text_area(key="pasted").value == text


def test_a_link_fills_the_box_and_an_empty_box_is_no_model() -> None:
    packed = packing.pack(json.dumps(TINY))
    assert packed is not None
    at = opened("model", **{"from": "Config", "spec": packed})
    assert metrics(at)
    assert json.loads(at.text_area(key="pasted").value or "") == TINY
    sound(at.text_area(key="pasted").set_value("").run())
    assert (metrics(at), address(at)) == ({}, {})


@pytest.mark.parametrize(
    ("text", "found"), [("[1, 2, 3]", "a list of 3"), ("null", "null"), (" 12", "12"), ('"a = 1"', "'a = 1'")]
)
def test_json_that_is_no_object_is_refused_as_json(text: str, found: str) -> None:
    at = opened("model", **{"from": "Config"})
    sound(at.text_area(key="pasted").set_value(text).run())
    assert f"config.json: expected a JSON object, found {found}" in refused(at)


def test_the_box_of_presets_says_how_to_show_others() -> None:
    at = opened("model")
    assert at.selectbox(key="model").help == "Other models: choose Config and paste their config.json."


def test_the_names_of_a_thousand_classes_keep_no_config_out_of_a_link() -> None:
    from tests.dashboard.test_packing import VIT

    names = {str(n): f"class {n * n:x}, or as some say {n:b}" for n in range(1000)}
    at = uploaded("config.json", json.dumps({**VIT, "id2label": names}).encode())
    assert set(address(at)) == {"spec"}
    assert not any("num_labels" in each.value for each in at.caption)
    assert metrics(opened("model", **{"from": "Config", **address(at)})) == metrics(at)


def test_a_hub_id_is_read_where_this_machine_has_it_and_asks_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    place = tmp_path / "models--someone--tiny-llama"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("0" * 40)
    (place / "snapshots" / ("0" * 40)).mkdir(parents=True)
    (place / "snapshots" / ("0" * 40) / "config.json").write_text(json.dumps(TINY))
    at = opened("model", **{"from": "Config"})
    sound(at.text_area(key="pasted").set_value("someone/tiny-llama").run())
    assert errors(at) == []
    assert any("tiny-llama" in each.value for each in at.sidebar.markdown)
    assert "spec" in address(at)
    sound(at.text_area(key="pasted").set_value("someone/another").run())
    assert "`python -m calc report someone/another` fetches it" in refused(at)


def test_no_visitor_sees_the_model_of_another() -> None:
    uploaded("config.json", json.dumps(TINY).encode())
    other = opened("model")
    assert metrics(other)["Parameters"] == "8.03B"
    empty = opened("model", **{"from": "Config"})
    assert metrics(empty) == {}
    assert errors(empty) == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"model_type": "llama", ', "expected JSON, found line 1"),
        (b"\xff\xfe\x00", "expected UTF-8 text"),
        (b"[1, 2]", "expected a JSON object"),
        (b'{"model_type": "<script>alert(1)</script>"}', "model_type: expected one of"),
        (json.dumps({**TINY, "num_hidden_layers": 10**9}).encode(), "num_hidden_layers"),
        (json.dumps({**TINY, "hidden_size": "64"}).encode(), "hidden_size"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "at most 256 KiB"),
        (b'{"a":' * 30_000 + b"1" + b"}" * 30_000, "nested too deep"),
        (b" " * 20 * 2**20, "at most 256 KiB"),
        (b"", "expected JSON"),
    ],
    ids=["broken", "bytes", "list", "html", "layers", "text", "deep", "deeper", "20MB", "empty"],
)
def test_hostile_uploads_are_one_plain_message(data: bytes, message: str) -> None:
    assert message in refused(uploaded("config.json", data))


@pytest.mark.parametrize(
    "name",
    ["<img src=x onerror=alert(1)>.json", "../../etc/passwd.json", "`![x](http://a.b/c.png)`.json", "a\tb\x07.json"],
)
def test_hostile_names_are_shown_as_they_are_and_open_nothing(name: str) -> None:
    at = uploaded(name, json.dumps(TINY).encode())
    assert metrics(at)["Parameters"]
    shown = at.sidebar.markdown[-1].value
    assert shown.startswith("**`")  # within a fence nothing of a name has an effect
    assert not any(each.allow_html for each in at.markdown)


def test_a_name_that_no_preset_has_shows_no_other_model() -> None:
    at = opened("model", model="llama-3-9b")
    assert "expected a preset (did you mean llama-3-8b" in refused(at)
    sound(at.selectbox(key="model").set_value("gpt2").run())
    assert metrics(at)["Parameters"] == "124M"
    assert errors(at) == []


@pytest.mark.parametrize("packed", ["x", "%%%", "A" * 5000, "eJzLSM3JyQcABiwCFQ"])
def test_hostile_links_are_one_plain_message(packed: str) -> None:
    assert "link" in refused(opened("model", **{"from": "Config", "spec": packed})) or packed.startswith("eJ")


@pytest.mark.parametrize(
    ("address", "sizes"),
    [
        ({}, "the first"),
        ({"d_model": "2048", "n_layers": "16", "n_heads": "16", "n_kv_heads": "4", "d_ff": "8192"}, "sizes"),
        ({"style": "GPT-2", "tied": "true", "n_heads": "12", "n_kv_heads": "12", "d_head": "64"}, "gpt"),
        ({"moe": "true", "n_experts": "64", "top_k": "6", "d_expert": "1408"}, "experts"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_shorthand_in_a_link_is_the_model_that_the_command_line_reads(
    address: dict[str, str], sizes: str, tmp_path: Path
) -> None:
    at = opened("model", **{"from": "Shorthand", **address})
    button = next(each for each in at.sidebar.get("download_button"))
    assert button.proto.label == "Save as model.toml"
    for name, value in address.items():
        if name in ("d_model", "n_layers", "d_ff", "n_experts"):
            assert str(at.slider(key=name).value) == value
    text = at.sidebar.code[0].value
    (tmp_path / "model.toml").write_text(text)
    (printed,) = cli("params", str(tmp_path / "model.toml"))
    assert metrics(at)["Parameters"] == si(printed["total"])
    assert metrics(at)["Active a token"] == si(printed["active"])


def test_fewer_heads_forget_key_heads_that_no_longer_divide_them() -> None:
    at = opened("model", **{"from": "Shorthand"})
    sound(at.select_slider(key="n_heads").set_value(20).run())
    assert errors(at) == []
    assert at.select_slider(key="n_kv_heads").value in (1, 2, 4, 5, 10, 20)


def test_every_style_of_the_shorthand_is_a_model() -> None:
    for lines in shorthand.STYLES.values():
        text = "\n".join(["d_model = 64", "n_layers = 1", "n_heads = 4", "vocab_size = 10", "max_seq_len = 8", *lines])
        assert calc.estimate(calc.architectures.models.from_toml(text, "model.toml", "model"), "params").value > 0


def grouped(groups: int) -> str:
    """A link to a description whose layers all differ."""
    layers = (
        f'[[layers]]\nname = "g{i}"\ncount = 1\nmixer = {{ n_heads = 4, d_head = {16 + 2 * i} }}\n'
        f'channel = {{ kind = "mlp", d_ff = {64 + i} }}\n'
        for i in range(groups)
    )
    packed = packing.pack("d_model = 64\nvocab_size = 100\n" + "".join(layers))
    assert packed is not None
    return packed


def test_a_link_with_hundreds_of_groups_is_refused_before_anything_is_computed_of_them() -> None:
    at = opened("formula", **{"from": "Config"}, spec=grouped(300))
    assert "at most 64 groups here (the command line takes more), found 300" in errors(at)[0]


@pytest.mark.slow
def test_the_most_groups_that_a_link_may_have_are_a_matter_of_seconds() -> None:
    begun = time.process_time()
    at = opened("formula", **{"from": "Config"}, spec=grouped(picker.MAX_GROUPS))
    assert errors(at) == []
    assert time.process_time() - begun < 20  # of 300 groups it took 157
