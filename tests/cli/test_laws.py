"""`laws`, `loss`, `optimal` and `judge` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from calc.cli import cli
from calc.errors import Refused
from calc.laws import LAWS, find


def run(*words: str) -> str:
    done = CliRunner().invoke(cli, list(words), catch_exceptions=False, standalone_mode=False)
    assert done.exit_code == 0
    return done.stdout


def test_optimal_as_json() -> None:
    """The keys that others read: law, params, tokens, loss, tokens_per_param, interval, convention, in_range."""
    record = json.loads(run("optimal", "--compute", "5.76e23", "--json"))
    assert record["law"] == "besiroglu"
    assert record["params"] == pytest.approx(72.2487e9, rel=1e-5)
    assert record["tokens"] == pytest.approx(1.328744e12, rel=1e-5)
    assert record["tokens_per_param"] == pytest.approx(18.39, abs=0.01)
    assert record["loss"] == pytest.approx(1.9744, abs=1e-4)
    assert record["interval"]["tokens_per_param"].keys() == {"level", "low", "high"}
    assert "C: 6 N D" in record["convention"]
    assert record["in_range"] is False


def test_pf_days_are_flops() -> None:
    days, flops = (json.loads(run("optimal", "--compute", text, "--json")) for text in ("100 PF-days", "8.64e21"))
    assert days == flops


def test_all_laws_are_a_line_each() -> None:
    lines = [json.loads(line) for line in run("optimal", "--loss", "2.2", "--law", "all", "--json").splitlines()]
    assert [line["law"] for line in lines if "reason" not in line] == [
        "kaplan",
        "hoffmann-3",
        "besiroglu",
        "gadre",
        "muennighoff",
        "busbridge",
    ]
    assert all(line["params"] is None for line in lines if "reason" in line)
    sizes = [line["params"] for line in lines if "reason" not in line and not find(line["law"]).superseded]
    assert "compute lies 17.4-fold apart without kaplan and hoffmann-3 (superseded)" in run(
        "optimal", "--loss", "2.2", "--law", "all"
    )
    for line in lines:
        assert line["spread"]["params"] == {"low": min(sizes), "high": max(sizes), "ratio": max(sizes) / min(sizes)}


@pytest.mark.parametrize(
    "words",
    [
        ("--compute", "5.76e23", "--law", "all"),
        ("--loss", "2.2", "--law", "all"),
        ("--gpu-days", "5000", "--gpu", "h100-sxm", "--mfu", "0.4", "--law", "all"),
        ("--compute", "1e22", "--family", "llama-3-8b", "--law", "kaplan", "--shapes", "3"),
        ("--compute", "1e26", "--family", "llama-3-8b", "--shapes", "4"),
        ("--compute", "1e22", "--family", "mixtral-8x7b", "--law", "all"),
        ("--params", "13e9", "--inference-tokens", "2T"),
        ("--params", "13e9", "--inference-tokens", "2T", "--law", "all"),
        ("--compute", "1e22", "--unique-tokens", "25e9", "--law", "all"),
    ],
)
def test_optima_fit_a_terminal(words: tuple[str, ...]) -> None:
    assert max(map(len, run("optimal", *words).splitlines())) <= 80


@pytest.mark.parametrize("model", ["llama-3-8b", "mixtral-8x7b"])
def test_judgements_and_losses_fit_a_terminal(model: str) -> None:
    law = "besiroglu" if model == "llama-3-8b" else "abnar"
    said = [run("judge", model, "--tokens", "15T", "--law", each) for each in (law, "all")]
    said += [
        run("loss", "--params", "7B", "--tokens", "2T"),
        run("loss", "--params", "7B", "--tokens", "4T", "--task", "all"),
    ]
    assert max(len(line) for text in said for line in text.splitlines()) <= 80


def test_what_people_count_is_written_out() -> None:
    words = ("optimal", "--money", "1e6", "--gpu", "h100-sxm", "--mfu", "0.4", "--price", "2", "--gpus", "512")
    rows = {line.partition(" ")[0]: line.split()[-1] for line in run(*words).splitlines() if line.strip()}
    assert rows["cost"] == "1,000,000"
    assert rows["GPU-days"] == f"{1e6 / 2 / 24:,.0f}"


def test_a_little_beyond_what_a_law_saw_is_told_in_three_digits() -> None:
    text = " ".join(run("optimal", "--gpu-days", "1000", "--gpu", "h100-sxm", "--mfu", "0.4").split())
    assert "1.05 times the parameters" in text
    assert " 1 times" not in text


def test_one_law_stands_beside_how_far_others_differ() -> None:
    record = json.loads(run("optimal", "--compute", "5.76e23", "--json"))
    assert record["laws"]["params"]["low"] < record["params"] < record["laws"]["params"]["high"]
    assert "55.9B to 169B" in run("optimal", "--compute", "5.76e23")


@pytest.mark.parametrize(
    "words",
    [
        ("--compute", "1e22", "--unique-tokens", "1e10"),
        ("--compute", "1e22", "--family", "llama-3-8b"),
        ("--params", "13e9", "--inference-tokens", "2T"),
    ],
)
def test_how_far_laws_differ_stands_beside_every_band(words: tuple[str, ...]) -> None:
    """As the question to all laws has it; a loss speaks of each law's own data, so that none stands beside it."""
    record = json.loads(run("optimal", *words, "--json"))
    every = json.loads(run("optimal", *words, "--law", "all", "--json").splitlines()[0])
    assert record["interval"]["tokens"]["low"] < record["tokens"] < record["interval"]["tokens"]["high"]
    assert record["laws"] == every["spread"]
    assert record["laws"]["tokens"]["ratio"] > 1.3
    assert json.loads(run("optimal", "--loss", "2.2", "--json"))["laws"] == {}


def test_laws_of_experts_are_each_handed_their_own() -> None:
    words = ("--compute", "1e22", "--experts", "8", "--granularity", "8", "--sparsity", "0.9")
    lines = [json.loads(line) for line in run("optimal", *words, "--law", "all", "--json").splitlines()]
    assert {line["law"] for line in lines if "reason" not in line} == {"ludziejewski", "krajewski", "abnar"}
    one = run("optimal", "--compute", "1e22", "--experts", "8", "--law", "all")
    assert "fold apart" not in one


def test_an_unbounded_interval_is_null() -> None:
    record = json.loads(run("optimal", "--loss", "1.83", "--json"))
    assert record["interval"]["compute"]["high"] is None
    assert "unbounded" in run("optimal", "--loss", "1.83")


def test_every_law_is_shown_with_formula_and_constants() -> None:
    listed = run("laws")
    for law in LAWS:
        assert law.name in listed
        record = json.loads(run("laws", law.name, "--json"))
        assert record["constants"].keys() == {constant.name for constant in law.constants}
        assert all(equation["formula"] for equation in record["equations"])
        assert run("laws", law.name).startswith(law.name)


def test_loss_of_precision_and_experts() -> None:
    low, high = (
        json.loads(run("loss", "--law", "kumar", "--params", "1e8", "--tokens", "1e10", "--bits", bits, "--json"))
        for bits in ("4", "16")
    )
    assert low["loss"] > high["loss"]
    assert "clark-s-base" in run("loss", "--law", "all", "--params", "1e9", "--experts", "8")


def test_shapes_and_judgement() -> None:
    record = json.loads(run("optimal", "--compute", "1e22", "--family", "llama-3-8b", "--shapes", "2", "--json"))
    assert len(record["shapes"]) == 2
    assert record["shapes"][0]["params"] == pytest.approx(record["params"], rel=0.02)
    judged = json.loads(run("judge", "llama-3-8b", "--tokens", "15T", "--json"))
    assert judged["past"] > 50
    assert "never" in run("judge", "llama-3-8b", "--tokens", "1B")


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (("judge", "llama-3-8b", "--tokens", "15T"), "76.3% fewer FLOPs a token than the optimum"),
        (("judge", "gpt3-175b", "--tokens", "300B"), "325.2% more FLOPs a token than the optimum"),
    ],
)
def test_use_is_said_in_words(words: tuple[str, ...], kept: str) -> None:
    assert kept in run(*words)


def test_a_payback_that_some_draws_never_see_ends_at_nothing() -> None:
    """Some 20 tokens a parameter: by some refits past the optimum, by others short of it."""
    record = json.loads(run("judge", "llama-3-8b", "--tokens", "170B", "--json"))
    assert record["interval"]["past"]["low"] < 1 < record["interval"]["past"]["high"]
    assert record["interval"]["break_even"]["high"] is None


@pytest.mark.parametrize(
    ("words", "suffix"),
    [
        (("optimal", "--compute", "1e22"), "svg"),
        (("optimal", "--compute", "1e22", "--law", "all"), "html"),
        (("loss", "--params", "70e9", "--tokens", "1.4T"), "png"),
    ],
)
def test_charts_are_saved(words: tuple[str, ...], suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    path = tmp_path / f"chart.{suffix}"
    run(*words, "--chart", str(path))
    start = {"png": b"\x89PNG", "svg": b"<svg", "html": b"<!DOCTYPE html>"}[suffix]
    assert path.read_bytes().lstrip().startswith(start)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("laws", "newton"), "--law: expected one of kaplan"),
        (("optimal", "--compute", "lots"), "--compute: expected a number of FLOP"),
        (("optimal", "--compute", "0"), "--compute: expected a number of FLOP above 0"),
        (("optimal", "--compute", "1e21 bytes"), "--compute: expected FLOP"),
        (("optimal", "--compute", "3 PF-days FLOP"), "--compute: expected a number of FLOP"),
        (("optimal", "--loss", "nan"), "--loss: expected a finite number above 0"),
        (("optimal", "--loss", "two"), "--loss: expected a finite number above 0"),
        (("optimal",), "optimal: expected one of --compute"),
        (("optimal", "--law", "all"), "optimal: expected one of --compute"),
        (("optimal", "--compute", "1e21", "--shapes", "3"), "--shapes: expected --family"),
        (("optimal", "--compute", "1e21", "--gpu", "h100-sxm"), "--mfu: expected"),
        (("loss", "--params", "7B"), "--law besiroglu: expected loss from"),
        (("loss", "--law", "all"), "--law all: expected inputs that some law takes"),
        (("optimal", "--compute", "1e21", "--chart", "chart.pdf"), "--chart: expected a file ending in .png"),
        (("loss", "--law", "kaplan", "--params", "1e9", "--chart", "chart.svg"), "--chart: expected --params and"),
        (("loss", "--law", "all", "--params", "1e9", "--chart", "chart.svg"), "--chart: expected one law"),
        (("judge", "gpt2", "--tokens", "-1"), "--tokens: expected a number of tokens"),
    ],
)
def test_refusals(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(Refused) as refusal:
        CliRunner().invoke(cli, list(words), catch_exceptions=False, standalone_mode=False)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)
