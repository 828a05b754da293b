"""`report` as a person reads it: figures that its own commands repeat, and what it says of those."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from calc.cli import cli

RECURRENT = ("rwkv7-1.5b", "falcon-h1-7b", "kimi-linear-48b", "zamba2-2.7b")


def _out(*words: str) -> str:
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("model", RECURRENT)
def test_serving_of_recurrent_layers_is_counted_in_compiled_kernels(model: str) -> None:
    page = _out("report", model)
    lines = page.splitlines()
    (at,) = (place for place, line in enumerate(lines) if line.startswith(" inference"))
    command = f"{lines[at].partition('memory ')[2]} {lines[at + 1]}".replace("MODEL", model)
    assert shlex.split(command)[1:] == ["--mode", "inference", "--execution", "compiled"]
    assert "under compiled" in " ".join(page.split())
    assert "not counted" not in page
    assert max(map(len, lines)) <= 80

    told = json.loads(_out("report", model, "--json"))["memory"]["inference"]
    counted = json.loads(_out("memory", *shlex.split(command), "--json"))
    assert (told["peak"], told["execution"]) == (counted["peak"], "compiled")


def test_usual_kernels_are_kept_where_they_are_known() -> None:
    assert "--execution" not in _out("report", "gpt2")
    assert json.loads(_out("report", "gpt2", "--json"))["memory"]["inference"]["execution"] == "sdpa"


@pytest.mark.parametrize("command", ["report", "params"])
def test_a_preset_that_is_partly_reconstructed_says_so(command: str) -> None:
    said = [CliRunner().invoke(cli, [command, model]).stderr for model in ("falcon-h1-7b", "zamba2-2.7b", "gpt2")]
    assert [text.count("partly reconstructed") for text in said] == [1, 1, 0]
    assert "falcon-h1-7b: partly reconstructed (widths of the feed-forward block" in said[0]


def test_what_tokens_retrieve_is_not_dense(tmp_path: Path) -> None:
    """Doge's experts: vectors of which a token reads some."""
    config = {"model_type": "doge", "is_moe": True, "hidden_size": 64, "num_hidden_layers": 2, "num_experts": 64}
    sizes = {"intermediate_size": 128, "num_attention_heads": 4, "num_experts_per_tok": 4, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(config | sizes))
    assert ": Mixture of experts, " in _out("report", str(tmp_path / "config.json"))
    assert ": Dense, " in _out("report", "gpt2")


def test_the_length_of_a_sound_is_said() -> None:
    """Of what was counted, as the same length asked for gives it."""
    page = _out("report", "conformer-l")
    assert "one sound of 1,000 frames costs" in " ".join(page.split())
    assert "FLOPS, one sound of 1,000 frames, " in page
    assert max(map(len, page.splitlines())) <= 80
    told = json.loads(_out("report", "conformer-l", "--json"))["flops"]["forward"]
    assert told == json.loads(_out("flops", "conformer-l", "--frames", "1000", "--json"))["total"]
    assert "picture" not in page


def test_a_row_of_a_table_is_no_picture() -> None:
    page = _out("report", "ft-transformer")
    assert "FLOPS, one row of a table, " in page
    assert "picture" not in page
