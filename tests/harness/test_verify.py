"""`python -m harness verify`: what it prints, and how it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("torch")

from calc.errors import Refused
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


def test_no_further_than_a_learned_table() -> None:
    """A model that cannot run has nothing to compare with; on the meta device it would seem to."""
    for model, most in (("gpt2", 1023), ("bert-base", 512)):
        refused = run(model, "--seq", "4000").exception
        assert isinstance(refused, Refused)
        assert f"--seq: expected at most {most} for {model} (the rows of its table of positions" in str(refused)


def test_past_other_lengths_there_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "short.json"
    path.write_text(json.dumps(CONFIG | {"max_position_embeddings": 8}))
    result = run(str(path), "--seq", "8")
    assert result.return_value == 0
    assert "--seq + 1 = 9 is past the 8 tokens it is made for" in result.stderr


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
    [("torch", "reference", ".[harness]' in a clone"), ("transformers", "transformers", "install transformers")],
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


def test_modules_for_further_tokens(tmp_path: Path, config: str) -> None:
    latent = {"q_lora_rank": 12, "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5}
    experts = {"n_routed_experts": 8, "moe_intermediate_size": 14, "num_nextn_predict_layers": 1}
    indexer = {"index_n_heads": 3, "index_head_dim": 6, "index_topk": 5, "index_topk_pattern": "FS"}
    path = tmp_path / "further.json"
    own = {"model_type": "glm_moe_dsa", "num_key_value_heads": 4, "num_local_experts": 8}
    path.write_text(json.dumps(CONFIG | own | latent | experts | indexer))
    plain, both = (json.loads(run(str(path), "--seq", "9", "--json", *more).stdout) for more in ([], ["--mtp"]))
    assert plain["agrees"]
    assert both["agrees"]
    more = {a["quantity"] for a, b in zip(plain["rows"], both["rows"], strict=True) if b["counted"] > a["counted"]}
    assert {"params", "flops.forward", "flops.training, full"} <= more
    assert not {"flops.decode", "kv_cache, growing"} & more
    for arguments in ([config, "--mtp"], [str(path), "--mtp", "--oracle", "transformers"]):
        assert isinstance(run(*arguments).exception, Refused)


VIT = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4}
T5 = {"vocab_size": 97, "d_model": 32, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 4}
OTHERS = {
    "t5": {**T5, "architectures": ["T5ForConditionalGeneration"]},
    "switch": {
        **T5,
        "model_type": "switch_transformers",
        "architectures": ["SwitchTransformersForConditionalGeneration"],
        "num_sparse_encoder_layers": 1,
        "num_sparse_decoder_layers": 1,
        "num_experts": 4,
    },
    "vit": {**VIT, "image_size": 16, "patch_size": 8, "architectures": ["ViTForImageClassification"]},
    "mamba": {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
    "falcon": {
        "vocab_size": 97,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_kv_heads": 2,
        "new_decoder_architecture": True,
    },
}
"""What transformers reads in other ways than a decoder's tokens, or counts as something else than it is."""


@pytest.mark.parametrize("name", OTHERS)
def test_other_models_of_transformers(name: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"model_type": name, **OTHERS[name]}))
    result = run(str(path), "--oracle", "transformers", "--seq", "9", "--json")
    assert result.return_value == 0, result.output
    names = {row["quantity"] for row in json.loads(result.stdout)["rows"]}
    assert ("flops.decode" in names) == (name != "vit")


def test_without_architectures_it_is_the_language_model_or_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"model_type": "t5", **T5}))
    assert run(str(path), "--oracle", "transformers", "--seq", "9", "--json").return_value == 0
    path.write_text(json.dumps({"model_type": "vit", **VIT, "image_size": 16, "patch_size": 8}))
    refusal = run(str(path), "--oracle", "transformers").exception
    assert isinstance(refusal, Refused)
    assert str(refusal).startswith("architectures: expected the class of this vit")


def test_what_transformers_cannot_run_is_refused_on_one_line(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """DETR's masks look at values, which the meta device has not."""
    pytest.importorskip("transformers")
    path = tmp_path / "detr.json"
    backbone = {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [16, 24, 32], "depths": [1, 1, 1]}
    small = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40}
    small |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_queries": 3}
    detector = {"model_type": "detr", "architectures": ["DetrForObjectDetection"], "backbone_config": backbone}
    path.write_text(json.dumps(detector | small))
    monkeypatch.setattr(sys, "argv", ["harness", "verify", str(path), "--oracle", "transformers"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: MODEL: expected a model that transformers runs on the meta device")
