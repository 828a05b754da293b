"""`calc attention`: the times it prints are those of `calc.time`, and it refuses what it cannot heed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from calc.attention import AttentionShape
from calc.cli.attention import attention
from calc.errors import Refused
from calc.time import attention_seconds

LONG = ("--seq", "4096", "--heads", "16", "--kv-heads", "4", "--causal")
SHAPE = AttentionShape(heads=16, kv_heads=4, seq=4096, d_head=128, causal=True)


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(attention, arguments, standalone_mode=False)


def records(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran(*arguments, "--json").stdout.splitlines()]


def test_times_are_the_predicted_ones() -> None:
    standard, flash = records(*LONG, "--gpu", "h100-sxm")
    for record, name in ((standard, "reference"), (flash, "sdpa_flash")):
        expected = attention_seconds("h100-sxm", name, SHAPE)
        assert (record["backend"], record["seconds"], record["rests"]) == (name, expected.seconds, expected.basis)
        assert record["low"] < record["seconds"] < record["high"]
        assert record["seconds"] > record["seconds_at_least"] or name == "sdpa_flash"
    times = [each["seconds"] for each in flash["backends"]]
    assert times == sorted(times)
    assert {"sdpa_cudnn", "triton", "tiled", "flash_attn_3"} <= {each["backend"] for each in flash["backends"]}
    assert set(flash["wins_from"]) == {"bytes moved", "memory", "time"}


def test_backward_is_both_directions() -> None:
    both = records(*LONG, "--gpu", "h100-sxm", "--backward")[1]
    parts = [attention_seconds("h100-sxm", "sdpa_flash", SHAPE, (each,)).seconds for each in ("forward", "backward")]
    assert both["seconds"] == pytest.approx(sum(parts))


def test_grouping_shortens_decoding() -> None:
    found = {one["grouping"]: one["seconds"] for one in records("--preset", "kv-grouping", "--gpu", "h200")}
    assert found["MHA"] > 2 * found["GQA-8"] > 2 * found["MQA"]
    assert found["MLA, expanded"] > 3 * found["MLA, absorbed"]


def test_no_times_without_a_device_and_where_pytorch_does_not_run() -> None:
    for arguments in (LONG, (*LONG, "--gpu", "tpu-v4"), ("--preset", "kv-grouping", "--gpu", "tpu-v4")):
        assert all("seconds" not in one for one in records(*arguments))
    assert "predicted" not in ran(*LONG, "--gpu", "tpu-v4").stdout


def test_none_says_by_how_much_flash_falls_behind() -> None:
    shown = ran("--seq", "512", "--backward", "--dtype", "fp32", "--blocks", "16x16").stdout
    assert "bytes moved, B    none: " in shown


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("--gpu", "h100-sxm", "--profile", "h100-sxm"), "--gpu"),
        (("--profile", "nowhere"), "--profile"),
        (("--preset", "flashattention-table", "--profile", "h100-sxm"), "--profile"),
    ],
)
def test_refused(arguments: tuple[str, ...], field: str) -> None:
    error = ran(*arguments).exception
    assert isinstance(error, Refused)
    assert str(error).startswith(f"{field}: expected ")
