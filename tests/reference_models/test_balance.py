"""The load-balancing loss of routers, in the normalisation of Fedus et al. 2021 (arXiv:2101.03961), equation 4."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from calc.spec import Attention, LayerGroup, ModelSpec, Moe  # noqa: E402
from reference_models import build  # noqa: E402
from reference_models.blocks.moe import balance  # noqa: E402

EXPERTS = 6


@pytest.mark.parametrize("top_k", [1, 2, EXPERTS])
def test_uniform_scores_give_one(top_k: int) -> None:
    """N * sum of f_i * (1 / N) is 1 wherever the tokens go; so does any router that spreads them evenly."""
    scores = torch.full((12, EXPERTS), 1 / EXPERTS)
    torch.testing.assert_close(balance(scores, scores.topk(top_k).indices), torch.tensor(1.0))
    # Each token is sure of one expert, and each expert has two tokens.
    sure = torch.eye(EXPERTS).repeat(2, 1)
    torch.testing.assert_close(balance(sure, sure.topk(1).indices), torch.tensor(1.0))


def test_one_expert_for_all_gives_their_number() -> None:
    scores = torch.eye(EXPERTS)[torch.zeros(12, dtype=torch.long)]
    torch.testing.assert_close(balance(scores, scores.topk(1).indices), torch.tensor(float(EXPERTS)))


def test_equation_4_term_by_term() -> None:
    """alpha is left out; f_i is the share of tokens whose best expert is i, P_i their mean probability of it."""
    torch.manual_seed(0)
    scores = torch.randn(40, EXPERTS, dtype=torch.float64).softmax(-1)
    best = scores.argmax(-1).tolist()
    f = [best.count(i) / 40 for i in range(EXPERTS)]
    p = [sum(scores[:, i].tolist()) / 40 for i in range(EXPERTS)]
    expected = EXPERTS * sum(a * b for a, b in zip(f, p, strict=True))
    assert balance(scores, scores.topk(1).indices).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("top_k", [1, 2])
def test_every_layer_of_a_model_adds_its_own(top_k: int) -> None:
    """Routers learn from the losses; with routers of zeros each is exactly 1."""
    torch.manual_seed(0)
    moe = Moe(n_experts=EXPERTS, top_k=top_k, d_expert=8)
    group = LayerGroup(count=3, mixer=Attention(n_heads=2), channel=moe)
    model = build(ModelSpec(d_model=16, vocab_size=11, layers=(group,)))
    tokens = torch.randint(11, (2, 9))
    losses = model(tokens).step.losses
    assert len(losses) == 3
    sum(losses).backward()
    assert all(layer.moe.router.weight.grad.abs().max() > 0 for layer in model.layers)
    for layer in model.layers:
        layer.moe.router.weight.data.zero_()
    for loss in model(tokens).step.losses:
        torch.testing.assert_close(loss, torch.tensor(1.0))
