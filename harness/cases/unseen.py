"""Eight GPTs whose sizes no profile measures: what predictions of whole passes and steps are checked on."""

from __future__ import annotations

from harness.cases.case import Case
from harness.cases.training import TrainingCase
from harness.cases.whole_passes import ForwardCase
from harness.record import Environment

SHAPES = (
    ("unseen-192", 8, 128),
    ("unseen-256", 4, 64),
    ("unseen-320", 2, 256),
    ("unseen-384", 4, 256),
    ("unseen-448", 2, 192),
    ("unseen-512", 2, 128),
    ("unseen-640", 1, 512),
    ("unseen-768", 1, 128),
)
"""(model, sequences, tokens in each)."""


def unseen(environment: Environment) -> list[Case]:
    """A forward pass and a training step of each in two formats, by turns with attention in the open and fused."""
    cases: list[Case] = []
    for i, (model, batch, seq) in enumerate(SHAPES):
        for j, dtype in enumerate(("fp32", "bf16")):
            execution = "eager" if (i + j) % 2 else "sdpa"
            cases.append(ForwardCase(model, seq, batch, dtype, execution))
            cases.append(TrainingCase(model, seq, batch, dtype, execution))
    return cases
