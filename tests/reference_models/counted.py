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

SMALL = 2_000_000
"""Parameters of the largest model that is built with numbers."""


def countable(spec: ModelSpec, **options: Any) -> Model:
    """The twin of `spec` in bf16. options: as those of `build`."""
    small = sum(parameters(spec).values()) <= SMALL
    return build(spec, "cpu" if small else "meta", torch.bfloat16, **options)
