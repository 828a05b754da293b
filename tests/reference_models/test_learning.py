"""Every objective lets a small model learn one batch by heart."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from calc.spec import Moe  # noqa: E402
from reference_models import Model, objectives  # noqa: E402
from tests.reference_models.small_models import (  # noqa: E402
    MASK,
    SEPARATOR,
    START,
    VOCAB,
    decoder,
    episodes,
    family,
    padding,
    rng,
    speech,
    tokens,
)

Case = tuple[list[Model], Callable[[], torch.Tensor]]
"""The models that learn, and their loss."""


def next_token() -> Case:
    model = decoder()
    return [model], lambda: objectives.next_token(model, tokens(), keep=padding())


def masked_token() -> Case:
    model = family("bert", "BertForMaskedLM")
    return [model], lambda: objectives.masked_token(model, tokens(), rng(), mask_id=MASK, keep=padding())


def next_sentence() -> Case:
    model = family("bert", "BertForNextSentencePrediction")
    pairs = objectives.sentence_pairs(tokens(8, 6), tokens(8, 7), rng(), start=START, separator=SEPARATOR)
    return [model], lambda: objectives.next_sentence(model, *pairs)


def span_corruption() -> Case:
    model = family("t5", "T5ForConditionalGeneration")
    return [model], lambda: objectives.span_corruption(model, tokens(), rng(), first_sentinel=VOCAB - 1)


def ctc() -> Case:
    model = speech()
    labels, lengths = torch.randint(1, 8, (4, 5), generator=rng()), torch.tensor([5, 4, 3, 0])
    return [model], lambda: objectives.ctc(
        model, tokens(), labels, frame_lengths=padding().sum(1), label_lengths=lengths, keep=padding()
    )


def replaced_token() -> Case:
    models = [family("electra", name) for name in ("ElectraForMaskedLM", "ElectraForPreTraining")]
    return models, lambda: objectives.replaced_token(*models, tokens(), rng(), mask_id=MASK, keep=padding())


def return_conditioned() -> Case:
    model = family("decision_transformer", "DecisionTransformerModel")
    return [model], lambda: objectives.return_conditioned(model, *episodes(), keep=padding(3, 10))


def classification() -> Case:
    model = family("bert", "BertForSequenceClassification", num_labels=3)
    return [model], lambda: objectives.classification(model, tokens(), torch.tensor([0, 1, 2, 1]), keep=padding())


def experts() -> Case:
    model = decoder(channel=Moe(n_experts=4, top_k=2, d_expert=16))
    return [model], lambda: objectives.next_token(model, tokens(), balance=0.01)


CASES = (
    next_token,
    masked_token,
    next_sentence,
    span_corruption,
    ctc,
    replaced_token,
    return_conditioned,
    classification,
    experts,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_learning_makes_it_smaller(case: Callable[[], Case]) -> None:
    models, loss = case()
    parameters = [p for model in models for p in model.parameters()]
    learner = torch.optim.AdamW(parameters, lr=3e-3, weight_decay=0.0)
    losses = []
    for _ in range(12):
        learner.zero_grad()
        losses.append(loss())
        losses[-1].backward()
        assert all(p.grad.isfinite().all() for p in parameters if p.grad is not None)
        assert any(p.grad.abs().max() > 0 for p in parameters if p.grad is not None)
        learner.step()
    assert losses[0].shape == ()
    assert losses[0].isfinite()
    assert losses[-1] < 0.95 * losses[0]
