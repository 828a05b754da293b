"""The page of attention: its figures are those of `attention`, for a model's sizes and for one's own."""

from __future__ import annotations

import shlex

import pytest

from calc.units import binary, duration, si
from dashboard import packing
from tests.dashboard.opening import cli, errors, metrics, opened, shown_command, sound


@pytest.mark.parametrize(
    "address",
    [
        {"model": "llama-3-70b"},
        {"model": "gpt2", "direction": "backward", "seq": "512", "batch": "4", "gpu": "a100-sxm-40gb"},
        {"sizes": "Own", "heads": "16", "kv_heads": "4", "width": "64", "causal": "false", "dtype": "fp16"},
    ],
)
def test_figures_are_those_of_the_command_line(address: dict[str, str]) -> None:
    at = opened("attention", **address)
    assert not errors(at)
    standard, flash = cli(*shown_command(at))
    shown = metrics(at)
    assert shown["FLOPs, flash"] == si(flash["flops"], "FLOP")
    assert shown["Bytes moved"] == si(flash["traffic"], "B")
    assert shown["Memory"] == binary(flash["peak"])
    assert shown["Time"] == duration(flash["seconds"])
    notes = {each.label: each.delta for each in at.metric}
    assert notes["Bytes moved"] == f"standard {si(standard['traffic'], 'B')}"
    said = " ".join(each.value for each in at.markdown)
    for length in flash["wins_from"].values():
        words = {None: "at no length", 1: "less at every length"}
        assert words.get(length, f"less from {length or 0:,} tokens on") in said


def test_values_of_another_width_are_those_of_the_command_line() -> None:
    text = """
        d_model = 256
        vocab_size = 1000
        [[layers]]
        count = 2
        mixer = { n_heads = 4, d_head = 64, d_value = 96, position = "none" }
        channel = { kind = "mlp", d_ff = 512 }
    """
    at = opened("attention", **{"from": "Config", "spec": str(packing.pack(text))})
    assert not errors(at)
    assert shown_command(at)[shown_command(at).index("--d-value") + 1] == "96"
    _, flash = cli(*shown_command(at))
    assert metrics(at)["FLOPs, flash"] == si(flash["flops"], "FLOP")
    assert metrics(at)["Time"] == duration(flash["seconds"])


def test_more_tokens_cost_more_and_the_address_says_how_many() -> None:
    at = opened("attention", model="llama-3-8b", seq="1024")
    before = at.metric[0].help
    sound(at.select_slider(key="seq").set_value(4096).run())
    assert at.metric[0].help != before
    assert "--seq 4096" in at.code[0].value


def test_decoding_by_grouping_is_that_of_the_command_line() -> None:
    at = opened("attention", model="llama-3-8b", context="16384", batch="8")
    line = next(line for block in at.code for line in block.value.splitlines() if "kv-grouping" in line)
    assert "--heads 32 --kv-heads 8 --d-head 128 --keys 16384 --batch 8" in line
    records = cli(*shlex.split(line)[3:])
    assert [each["grouping"] for each in records][:3] == ["MHA", "GQA-8", "MQA"]
    (said,) = [each.value for each in at.success]
    assert said.startswith("`llama-3-8b` (GQA-8) keeps 4 × less for a token")
    table = next(each.value for each in at.dataframe if "cached" in each.value.columns).set_index("name")
    assert list(table.index) == [each["grouping"] for each in records]
    for each in records:
        assert table.loc[each["grouping"], "traffic"] == each["traffic"]
        assert table.loc[each["grouping"], "seconds"] == pytest.approx(each["seconds"], rel=1e-12)


def test_sharing_of_keys_is_that_of_the_model_that_is_picked() -> None:
    at = opened("attention", model="qwen3-32b")
    table = next(each.value for each in at.dataframe if "cached" in each.value.columns)
    assert table["name"].tolist()[:3] == ["MHA", "GQA-8", "MQA"]
    assert table["cached"].tolist()[0] == 2 * 2 * 64 * 128
    assert not opened("attention", model="qwen3-32b", sizes="Own").success
    assert "shares no keys" in opened("attention", model="gpt2").success[0].value


def test_the_notes_table_is_that_of_the_command_line() -> None:
    at = opened("attention", model="gpt2")
    table = next(each.value for each in at.dataframe if "printed" in each.value.columns)
    records = cli("attention", "--preset", "flashattention-table")
    assert list(table["here"]) == pytest.approx([each["counted"] for each in records])
    assert list(table["why"]) == [each["why"] for each in records]


def test_a_model_without_such_attention_is_said_in_one_line_and_own_sizes_still_work() -> None:
    at = opened("attention", model="ft-transformer", seq="512")
    assert len(errors(at)) <= 1
    at = opened("attention", model="ft-transformer", sizes="Own")
    assert not errors(at)


def test_a_model_starts_with_the_mask_that_it_has() -> None:
    at = opened("attention", model="bert-base")
    assert "--causal" not in shown_command(at)
    sound(at.selectbox(key="model").set_value("gpt2").run())
    assert "--causal" in shown_command(at)
    sound(at.selectbox(key="model").set_value("bert-base").run())
    assert "--causal" not in shown_command(at)
    assert "--causal" in shown_command(opened("attention", model="bert-base", masked="true"))
    assert "--causal" not in shown_command(opened("attention", model="gpt2", causal="false"))


def test_what_a_models_attention_is_counted_without_is_said() -> None:
    said = [each.value for each in opened("attention", model="gpt-oss-20b").caption]
    warned = [text for text in said if text.startswith("⚠")]
    told = "12 of 24 layers see a window of 128 tokens alone; sinks take part in the softmax"
    assert warned == [f"⚠ Not counted here: {told}."]
    assert not [each.value for each in opened("attention", model="llama-3-8b").caption if each.value.startswith("⚠")]


def test_a_gpu_offers_the_formats_that_it_computes_in() -> None:
    at = opened("attention", gpu="v100-sxm2-32gb")
    assert at.selectbox(key="dtype").options == ["fp16", "fp32"]
    assert not at.error
