"""Models whose operations are counted: with numbers where they are small, without memory where they are not.

The counter sees the same products either way; without numbers PyTorch answers many an operation in Python, which takes
several times as long.
"""

from __future__ import annotations

from typing import Any

import torch

from calc.quantities.parameters import parameters
from calc.spec import ModelSpec
from reference_models import Model, build
from reference_models.blocks.moe import MixtureOfExperts

SMALL = 2_000_000
"""Parameters of the largest model that is built with numbers."""


def countable(spec: ModelSpec, **options: Any) -> Model:
    """The twin of `spec` in bf16. options: as those of `build`."""
    small = sum(parameters(spec).values()) <= SMALL
    return routed_evenly(build(spec, "cpu" if small else "meta", torch.bfloat16, **options))


def long_enough(spec: ModelSpec, seq: int) -> ModelSpec:
    """The same, whose tables of positions have a row for each of `seq` tokens."""
    encoder = spec.encoder and spec.encoder.model_copy(update={"embedding": _longer(spec.encoder.embedding, seq)})
    return spec.model_copy(update={"embedding": _longer(spec.embedding, seq), "encoder": encoder})


def _longer(embedding: Any, seq: int) -> Any:
    n = getattr(embedding, "n_positions", None)
    return embedding if n is None else embedding.model_copy(update={"n_positions": max(n, seq)})


def routed_evenly(model: Model) -> Model:
    """The same, where some experts give back what they read with as many visits to the others as are counted."""
    for module in model.modules():
        if isinstance(module, MixtureOfExperts) and module.spec.n_zero is not None:
            spec = module.spec
            for numbers in (
                module.correction[: spec.visits],
                module.correction[spec.n_experts :][: spec.top_k - spec.visits],
            ):
                numbers.fill_(2.0)
    return model
