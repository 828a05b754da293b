"""What the loss that holds routers to even shares keeps, of transformers' own models and of the reference models."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from reference_models import build, saved  # noqa: E402
from tests.saved import test_transformers as whole  # noqa: E402
from tests.saved.test_transformers import BATCH, FAMILIES, MODES, SEQ  # noqa: E402

ASKED = {"output_router_logits": True}


@pytest.mark.parametrize("mode", ["eager fp32", "eager bf16"])
@pytest.mark.parametrize("name", ["mixtral", "ernie4_5_moe", "deepseek_v4"])
def test_a_softmax_of_each_router_is_kept(name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a share for each expert; experts that a table chooses are held to nothing (DeepSeek-V4's first layers)."""
    before, counted = whole.measured(name, MODES[mode]), whole.counted(name, MODES[mode])
    monkeypatch.setitem(FAMILIES, name, FAMILIES[name] | ASKED)
    spec = from_config({"model_type": name, **FAMILIES[name]})
    shares = 4 * next(each.channel.n_experts for each in spec.layers if each.channel.kind == "moe")
    more = whole.counted(name, MODES[mode]) - counted
    assert more > 0
    assert whole.measured(name, MODES[mode]) - before == more + shares


def test_what_a_loss_of_another_kind_keeps_is_said_to_be_left_out() -> None:
    spec = from_config({"model_type": "jetmoe", **FAMILIES["jetmoe"], **ASKED})
    assert any("output_router_logits is true" in note and "not counted" in note for note in spec.notes)
    assert all(each.channel.balanced is None for each in spec.layers)
    # A family whose class adds no such loss, whatever the config says.
    deaf = from_config({"model_type": "glm4_moe", **FAMILIES["glm4_moe"], **ASKED})
    assert not any("output_router_logits" in note for note in deaf.notes)


def test_the_reference_model_keeps_one_too() -> None:
    raw = {"model_type": "mixtral", **FAMILIES["mixtral"]}
    bytes_of = []
    for more in ({}, ASKED):
        model = build(from_config(raw | more)).to(torch.bfloat16)
        tokens = torch.randint(3, 90, (BATCH, SEQ))
        bytes_of.append(saved.saved_tensors(model, lambda model=model, tokens=tokens: model(tokens)).total)
    layers, experts = raw["num_hidden_layers"], raw["num_local_experts"]
    assert bytes_of[1] - bytes_of[0] == 2 * BATCH * SEQ * layers * experts
