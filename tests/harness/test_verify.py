"""`python -m harness verify`: what it prints, and how it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("torch")

from harness import oracles, verify
from harness.__main__ import cli, main

CONFIG = {
    "model_type": "mixtral",
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "bos_token_id": 1,
    "eos_token_id": 1,
}


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(CONFIG))
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["verify", *arguments], standalone_mode=False)


def test_equal_to_the_reference_model(config: str) -> None:
    result = run(config, "--seq", "9", "--json")
    assert result.return_value == 0, result.output
    record = json.loads(result.stdout)
    assert record["agrees"]
    names = [row["quantity"] for row in record["rows"]]
    assert names[:3] == ["params", "tensors of equal path and shape", "flops.forward"]
    assert {"flops.training, full-early-stop", "flops.decode", "kv_cache, growing", "kv_cache, static"} <= set(names)
    assert all(row["difference"] == 0 and row["counted"] > 0 for row in record["rows"])


def test_equal_to_transformers(config: str) -> None:
    pytest.importorskip("transformers")
    result = run(config, "--oracle", "transformers", "--seq", "9", "--json")
    assert result.return_value == 0, result.output
    assert {row["quantity"] for row in json.loads(result.stdout)["rows"]} == {
        "params",
        "flops.forward",
        "flops.training, none",
        "flops.decode",
        "kv_cache, growing",
    }


def test_a_difference_is_shown_and_fails(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = oracles.reference

    def one_more(*arguments: Any) -> oracles.Counted:
        counted = honest(*arguments)
        return counted._replace(quantities={**counted.quantities, "params": counted.quantities["params"] + 1})

    monkeypatch.setattr(verify.oracles, "reference", one_more)
    result = run(config)
    assert result.return_value == 1
    assert "NOT equal" in result.stdout
    assert any(line.split()[0] == "params" and line.split()[-1] == "1" for line in result.stdout.splitlines()[2:3])


@pytest.mark.parametrize(
    ("missing", "oracle", "hint"),
    [("torch", "reference", "transformer-envelope[harness]"), ("transformers", "transformers", "install transformers")],
)
def test_what_is_not_installed_is_named(
    config: str, missing: str, oracle: str, hint: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(sys, "argv", ["harness", "verify", config, "--oracle", oracle])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert hint in capsys.readouterr().err


def test_transformers_needs_a_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    own = tmp_path / "own.toml"
    own.write_text('d_model = 8\nn_layers = 1\nn_heads = 1\nvocab_size = 9\nposition = "rope"\n')
    monkeypatch.setattr(sys, "argv", ["harness", "verify", str(own), "--oracle", "transformers"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "config.json" in capsys.readouterr().err
