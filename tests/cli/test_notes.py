"""What the command line says on stderr, and what a convention's own figures look like."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from calc.cli import cli
from calc.errors import Refused
from tests.architectures.cases import BASES
from tests.architectures.cases_text import TEXT
from tests.architectures.cases_vision import SEEING

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, command: str) -> tuple[str, str]:
    cli.main(shlex.split(command), standalone_mode=False)
    return capsys.readouterr()


def parsed(capsys: Capture, command: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(capsys, f"{command} --json")[0].splitlines()]


@pytest.mark.parametrize(
    ("command", "note"),
    [
        ("flops gpt2 --seq 8 --checkpointing full", "--checkpointing changes nothing in flops.forward"),
        ("flops gpt2 --phase decode --context 8 --seq 8", "--seq changes nothing in flops.decode"),
        ("explain gpt2 params --batch 2", "--batch changes nothing in params"),
        ("solve gpt2 params=1B --for d_model --dtype fp8", "--dtype changes nothing in params"),
        ("conventions --compare gpt2 --seq 8 --context 8", "--context changes nothing in flops.training"),
        ("predict gpt2 --gpu h100-sxm --phase decode --seq 8", "--seq changes nothing in decode"),
        ("predict gpt2 --gpu h100-sxm --seq 8 --context 8", "--context changes nothing in forward"),
        (
            "predict gpt2 --gpu h100-sxm --seq 8 --images 2",
            "gpt2: --images changes nothing for a model without a vision tower beside its text",
        ),
        ("predict gpt2 --gpu h100-sxm --seq 8 --zero 3", "--zero changes nothing in forward"),
        (
            "flops gpt2 --seq 8 --frames 9",
            "gpt2: --source-seq (--frames) changes nothing for a model without an encoder, which hears nothing",
        ),
        (
            "explain gpt2 traffic.forward --seq 8 --image 9x9",
            "gpt2: --image changes nothing for a model that sees nothing",
        ),
        (
            "flops vit-l --images 3",
            "vit-l: --images changes nothing for one picture a sequence: --image tells its size, --batch how many",
        ),
        (
            "flops ast-base --frames 500",
            "ast-base: --source-seq (--frames) changes nothing for one picture a sequence: --image tells its size, "
            "--batch how many",
        ),
        (
            "kv-cache whisper-large-v3 --frames 1500",
            "whisper-large-v3: --frames 1,500 are not the 3,000 of its positions; transformers takes 3,000 alone",
        ),
        (
            "predict gpt2 --gpu h100-sxm --phase training --seq 8 --zero 3",
            "--zero 3 divides nothing among one data-parallel rank; add --dp",
        ),
        (
            "predict gpt2 --gpu h100-sxm --phase decode --context 1024",
            "gpt2: --context + 1 = 1025 is past the 1024 tokens it is made for",
        ),
        (
            "serve gpt2 --gpu h100-sxm --input 1000 --output 25 --concurrency 1",
            "gpt2: --input + --output = 1025 is past the 1024 tokens it is made for",
        ),
        (
            "plan gpt2 --serve --on h100-sxm --gpus 1 --slo tpot=1s --input 1000 --output 25",
            "gpt2: --input + --output = 1025 is past the 1024 tokens it is made for",
        ),
        ("explain gpt2 traffic.forward --execution fused", "--execution fused is called --execution compiled now"),
        ("memory gpt2 --execution fused --seq 8", "--execution fused is called --execution compiled now"),
        ("explain gpt2 traffic.forward --kernels sdpa", "--kernels is called --execution now"),
        ("kv-cache gpt2 --dtype fp8", "--dtype is called --cache-dtype now"),
        ("conventions --seq 8", "--seq changes nothing in the list of conventions"),
    ],
)
def test_an_option_that_changes_nothing_is_named(capsys: Capture, command: str, note: str) -> None:
    assert run(capsys, command)[1] == f"note: {note}\n"


def test_requests_of_a_trace_that_are_longer_than_a_model_is_made_for_are_named(
    capsys: Capture, tmp_path: Path
) -> None:
    file = tmp_path / "trace.csv"
    command = f"serve gpt2 --gpu h100-sxm --trace {file}"
    for output, told in (
        (24, ""),
        (25, "note: gpt2: --trace's longest request = 1025 is past the 1024 tokens it is made for\n"),
    ):
        file.write_text(f"sent,input,output\n0,10,5\n1,1000,{output}\n")
        assert run(capsys, command)[1] == told
    assert run(capsys, "serve gpt2 --gpu h100-sxm --input 1000 --output 24 --concurrency 1")[1] == ""


def test_options_that_matter_are_not_named(capsys: Capture) -> None:
    for command in ("flops gpt2 --seq 8 --phase training --checkpointing full", "flops gpt2 --seq 8 --context 0"):
        assert run(capsys, command)[1] == ""
    assert run(capsys, "flops gpt2 --seq 8 --checkpointing none")[1] == ""


@pytest.mark.parametrize(
    "command",
    [
        "flops llama-3-8b --phase training --convention megatron",
        "explain llama-3-8b flops.training --convention megatron",
        "explain llama-3-8b params --convention megatron --latex",
        'solve llama-3-8b "params=9B" --for n_layers --convention megatron',
        "params llama-3-8b --convention megatron",
    ],
)
def test_every_command_says_what_a_formula_does_not_see(capsys: Capture, command: str) -> None:
    notes = run(capsys, command)[1].splitlines()
    assert "note: llama-3-8b: gated feed-forward blocks have three matrices; the formula counts two" in notes
    assert any("table of its own" in note for note in notes) == ("params" in command)


def test_params_have_one_shape_unless_a_convention_has_its_own(capsys: Capture) -> None:
    (exact,) = parsed(capsys, "params gpt2 --convention palm")
    assert exact == parsed(capsys, "params gpt2")[0]
    assert "convention" not in exact
    for name in ("lecture", "kaplan", "megatron"):
        (own,) = parsed(capsys, f"params gpt2 --convention {name}")
        assert list(own) == ["model", "total", "components", "convention"]
        assert own["total"] == sum(own["components"].values())
        (shown,) = parsed(capsys, f"explain gpt2 params --convention {name}")
        assert {term: it["value"] for term, it in shown["terms"].items()} == own["components"]


def test_the_footnote_of_compare_names_a_command_that_works(capsys: Capture) -> None:
    out, err = run(capsys, "conventions --compare llama-3-8b")
    assert err == ""
    assert out.startswith("training of llama-3-8b")
    footnote, ran = out.splitlines()[-2:]
    assert "2,048 tokens a step" in ran
    assert footnote.startswith("*")
    command = footnote.split("`")[1].removeprefix("python -m calc ").replace("NAME", "deepseek")
    assert "gated" in run(capsys, command)[1]


def test_aliases_are_listed(capsys: Capture) -> None:
    listed = {record["convention"]: record["aliases"] for record in parsed(capsys, "conventions")}
    assert listed["torch"] == ["full"]
    assert listed["palm"] == []


def test_a_tower_that_reads_no_pictures_is_named(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "seeing.json"
    path.write_text(json.dumps({"model_type": "gemma3", **SEEING["gemma3"][0]}))
    said = "note: seeing: no pictures are read; --images N adds the work of its vision tower"
    assert said in run(capsys, f"flops {path} --seq 32")[1].splitlines()
    assert said not in run(capsys, f"flops {path} --seq 32 --images 1")[1].splitlines()
    assert said not in run(capsys, f"flops {path} --phase decode --context 32")[1].splitlines()


def test_a_text_that_is_too_short_for_its_pictures_is_named(capsys: Capture, tmp_path: Path) -> None:
    """Each of this tower's pictures takes as many places as its config says."""
    path = tmp_path / "seeing.json"
    path.write_text(json.dumps({"model_type": "gemma3", **SEEING["gemma3"][0]}))
    places = SEEING["gemma3"][0]["mm_tokens_per_image"]
    least = f"--seq {2 * places} would hold them"
    assert least in run(capsys, f"flops {path} --seq {2 * places - 1} --batch 2 --images 4")[1]
    assert least not in run(capsys, f"flops {path} --seq {2 * places} --batch 2 --images 4")[1]


def test_a_page_that_has_no_picture_is_named(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "page.json"
    path.write_text(json.dumps({"model_type": "layoutlmv3", **TEXT["layoutlmv3"][0]}))
    said = "note: page: no pictures are read; --images N adds one behind each of N texts"
    assert said in run(capsys, f"flops {path} --seq 32 --batch 2")[1].splitlines()
    assert said not in run(capsys, f"flops {path} --seq 32 --batch 2 --images 2")[1].splitlines()


def test_defaults_of_absent_keys_are_one_note(tmp_path: Path, capsys: Capture) -> None:
    """A config that leaves much out to its class is told of in a line; one key alone as before."""
    whole = BASES["gemma2"] | {"model_type": "gemma2", "query_pre_attn_scalar": 256}
    for absent, note in (
        ({"query_pre_attn_scalar"}, "query_pre_attn_scalar is absent: 256, this family's default"),
        (
            {"query_pre_attn_scalar", "sliding_window"},
            "absent keys, for which this family's defaults are taken: query_pre_attn_scalar 256, sliding_window 4096",
        ),
    ):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({key: value for key, value in whole.items() if key not in absent}))
        _, err = run(capsys, f"params {path}")
        assert err.count("family's default") == 1
        assert note in err


@pytest.mark.parametrize(
    "command",
    [
        "memory gpt2 --stack deepspeed --zero 2 --pp 4 --checkpoint-every 2",
        "memory gpt2 --memory-fraction 0.5 --seq 4096 --tp 5",
        "predict gpt2 --gpu h100-sxm --phase training --stack deepspeed --zero 2 --pp 4",
        "plan gpt2 --cluster dgx-h100 --gpus 8 --seq 2048 --global-batch 70000 --headroom 200%",
    ],
)
def test_a_refusal_comes_without_notes(capsys: Capture, command: str) -> None:
    with pytest.raises(Refused):
        run(capsys, command)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("stack", "options", "named"),
    [
        ("megatron-core", "--zero 2", "--zero 2"),
        ("megatron-core", "--pp 2 --schedule zero-bubble", "--schedule zero-bubble"),
        ("megatron-core", "--checkpointing selective-op", "--checkpointing selective-op"),
        ("torchtitan", "--tp 8 --checkpointing selective", "--checkpointing selective"),
        ("megatron-core", "--zero 1 --checkpointing full", ""),
        ("torchtitan", "", ""),
    ],
)
def test_what_a_stack_does_not_launch_is_said(capsys: Capture, stack: str, options: str, named: str) -> None:
    """By the rules by which plans leave it out, and of what was said alone; the step is told all the same."""
    words = "predict llama-3-8b --phase training --cluster dgx-h100 --gpus 16 --seq 512"
    out, err = run(capsys, f"{words} --stack {stack} {options}")
    found = [line for line in err.splitlines() if "does not launch" in line]
    assert out
    assert [f"{stack} does not launch {named}: " in line for line in found] == [True] * bool(named)
