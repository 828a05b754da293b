"""BigBird's long texts, which attend to blocks: twins and counts against transformers."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors as what_is_saved  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from harness.counter import count  # noqa: E402
from reference_models import build, saved  # noqa: E402
from tests.memory.test_live import measured, ours  # noqa: E402
from tests.reference_models.weights import copy_weights  # noqa: E402
from tests.saved.test_twins import MODES, check  # noqa: E402

CONFIG: dict[str, Any] = {
    "model_type": "big_bird",
    "vocab_size": 96,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "block_size": 2,
    "num_random_blocks": 1,
    "pad_token_id": 0,
    "architectures": ["BigBirdForMaskedLM"],
}
TEXTS = [
    ({}, 2, 15),
    ({}, 1, 40),
    ({"num_random_blocks": 2, "block_size": 3}, 2, 32),
    ({"num_attention_heads": 1}, 3, 16),
]
"""What is changed, and how many texts of how many tokens."""


def theirs(config: dict[str, Any]) -> Any:
    """transformers' model without dropout, its weights drawn."""
    torch.manual_seed(0)
    undropped = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = transformers.BigBirdForMaskedLM(transformers.AutoConfig.for_model(**config | undropped))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model


@pytest.mark.parametrize(("changed", "batch", "seq"), TEXTS)
def test_outputs_and_products_are_those_of_transformers(changed: dict[str, Any], batch: int, seq: int) -> None:
    """Where nothing is trained the class draws the first block alone, and so does the twin."""
    config = CONFIG | changed
    spec, tokens = from_config(config), torch.randint(3, 90, (batch, seq))
    model, twin = theirs(config).eval(), build(from_config(config)).eval()
    copy_weights(model, twin, "big_bird")
    with torch.no_grad():
        torch.testing.assert_close(twin(tokens).logits, model(tokens).logits, rtol=1e-5, atol=1e-5)
    load = Load(batch=batch, seq=seq)
    assert forward(spec, load).total == count(lambda: model(tokens)) == count(lambda: twin(tokens))
    model.train()
    assert training(spec, load).total == count(lambda: model(tokens, labels=tokens).loss.backward())


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize(("changed", "batch", "seq"), TEXTS)
def test_autograd_keeps_what_transformers_keeps(changed: dict[str, Any], batch: int, seq: int, dtype: Any) -> None:
    """But for indices, and in whole blocks: of filled texts the probe sees what the pooler reads, which is free at
    once, since nothing reads what it gives. Under autocast a CPU runs none of it: weights are not in the format of
    the zeros that they are put into."""
    config = CONFIG | changed
    seq += -seq % config["block_size"]
    model = theirs(config).to(torch.float32 if dtype == "fp32" else torch.bfloat16).train()
    tokens = torch.randint(3, 90, (batch, seq))
    found = saved.saved_tensors(model, lambda: model(tokens, labels=tokens)).total
    settings = Settings("eager", dtype, device="cpu")
    written = what_is_saved(from_config(config), Load(batch=batch, seq=seq), settings)
    counted = int(sum(n * each.tensor.bytes for n, each in written.everything()))
    assert abs(counted - found) <= 4 * 8 * batch * seq


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("changed", [{}, {"num_attention_heads": 1}, {"block_size": 2, "num_random_blocks": 3}])
def test_what_the_twin_keeps_to_the_byte(changed: dict[str, Any], mode: Any) -> None:
    check(from_config(CONFIG | changed), mode)


def test_blocks_are_drawn_among_those_that_are_not_seen_anyway() -> None:
    """In training each head draws for itself, so that what a token sees is not what it sees elsewhere."""
    torch.manual_seed(0)
    model, tokens = build(from_config(CONFIG)).train(), torch.randint(3, 90, (1, 40))
    assert not torch.equal(model(tokens).logits, model(tokens).logits)
    model.eval()
    assert torch.equal(model(tokens).logits, model(tokens).logits)


@pytest.mark.parametrize("seq", [96, 192])
def test_what_is_live_beside_zeros_for_all_pairs(seq: int) -> None:
    """All but the masks, which have a number for each pair of a text's tokens and not for each head's."""
    sizes = {"hidden_size": 128, "intermediate_size": 352, "max_position_embeddings": 256, "block_size": 8}
    config = transformers.BigBirdConfig(**{k: v for k, v in (CONFIG | sizes).items() if k != "model_type"})
    found = measured(config, "BigBirdForMaskedLM", "fp32", input_ids=torch.randint(3, 90, (2, seq)))
    assert found == pytest.approx(ours(config, "BigBirdForMaskedLM", "fp32", "eager", seq=seq), rel=0.03)
