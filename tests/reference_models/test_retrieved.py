"""Doge's experts, which tokens retrieve by product keys: what they give, keep and cost, against transformers'."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.memory.conditions import check as check_run  # noqa: E402
from calc.quantities.parameters import parameters  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors  # noqa: E402
from calc.spec import RetrievedExperts  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.spec.run import Run  # noqa: E402
from reference_models import build  # noqa: E402
from reference_models.saved import saved_tensors as probed  # noqa: E402
from tests.architectures.cases_recent import RECENT  # noqa: E402
from tests.reference_models.test_counts import check as counted  # noqa: E402
from tests.reference_models.weights import copy_weights, vary  # noqa: E402
from tests.saved.test_readings import agree  # noqa: E402
from tests.saved.test_twins import MODES, Mode, check  # noqa: E402

CASES = RECENT["doge"][3:]
NORMED = CASES[0] | {"norm_topk_prob": True}
BATCH, SEQ = 2, 11


def theirs(config: dict[str, Any], kernel: str = "eager") -> Any:
    torch.manual_seed(0)
    made = transformers.AutoConfig.for_model("doge", **config)
    model = transformers.AutoModelForCausalLM.from_config(made, attn_implementation=kernel)
    with torch.no_grad():
        vary(model)
    return model


@pytest.mark.parametrize("config", [*CASES, NORMED], ids=str)
def test_logits(config: dict[str, Any]) -> None:
    model, ours = theirs(config).eval(), build(from_config({"model_type": "doge", **config})).eval()
    copy_weights(model, ours, "doge")
    tokens = torch.randint(97, (BATCH, SEQ))
    with torch.no_grad():
        expected, found = model(tokens).logits, ours(tokens).logits
        other = ours(torch.cat([tokens[:, :-1], tokens[:, -1:] - 1], 1)).logits
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    # Scores of later tokens choose what the first ones visit.
    assert not torch.equal(other[:, 0], found[:, 0]) or config["num_experts_per_tok"] == config["num_experts"]


@pytest.mark.parametrize("config", CASES, ids=str)
@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
def test_counts(config: dict[str, Any], checkpointing: str) -> None:
    counted(from_config({"model_type": "doge", **config}), checkpointing)


@pytest.mark.parametrize("config", [*CASES, NORMED], ids=str)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_what_the_twin_keeps(config: dict[str, Any], mode: Mode) -> None:
    check(from_config({"model_type": "doge", **config}), mode)


@pytest.mark.parametrize("config", CASES, ids=str)
@pytest.mark.parametrize("mode", [Mode(), Mode("sdpa", autocast=True), Mode("sdpa", "bf16", batch=1)], ids=str)
def test_what_transformers_keeps(config: dict[str, Any], mode: Mode) -> None:
    model = theirs(config, mode.execution).train().to(torch.bfloat16 if mode.dtype == "bf16" else torch.float32)
    tokens = torch.randint(97, (mode.batch, SEQ))

    def forward() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=mode.autocast):
            return model(tokens, use_cache=False).logits

    written = saved_tensors(
        from_config({"model_type": "doge", **config}), Load(batch=mode.batch, seq=SEQ), mode.settings()
    )
    loss = sum(each.tensor.bytes for each in written.loss)
    assert sum(n * each.tensor.bytes for n, each in written.everything()) - loss == probed(model, forward).total


def test_a_token_visits_few() -> None:
    spec = from_config({"model_type": "doge", **CASES[0]})
    whole, active = parameters(spec), parameters(spec, active=True)
    assert active["routed_expert"] * 30 == whole["routed_expert"] * 4
    assert type(active["routed_expert"]) is int
    assert {**active, "routed_expert": 0} == {**whole, "routed_expert": 0}


def test_what_is_refused() -> None:
    fields: dict[str, Any] = {"n_experts": 24, "n_keys": 4, "top_k": 3, "d_shared": 8}
    for change, field in (({"n_keys": 5}, "n_keys"), ({"top_k": 17}, "top_k")):
        with pytest.raises(ValueError, match=f"{field}: expected"):
            RetrievedExperts(**fields | change)
    with pytest.raises(Refused, match="tp: expected 1"):
        check_run(from_config({"model_type": "doge", **CASES[0]}), Run(phase="training", batch=2, seq=32, tp=2))


@pytest.mark.parametrize("how", [Mode().settings(), Mode("sdpa", autocast=True).settings()], ids=["eager", "sdpa"])
def test_three_readings_agree(how: Any) -> None:
    agree(from_config({"model_type": "doge", **CASES[0]}), how)
