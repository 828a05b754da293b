"""Optimizers: how many bytes a parameter takes in training for what updates it."""

from __future__ import annotations

from dataclasses import dataclass

from calc.checks import word
from calc.sizes import Size, ceil_div


@dataclass(frozen=True, slots=True)
class Optimizer:
    """What an optimizer keeps for each trained parameter.

    moments: how many numbers. bits: of each; None: as wide as what it updates (the master weights, or the weights).
    block: parameters that share a scale in fp32 for each moment. update: bytes of temporaries a parameter while it
    steps, which PyTorch's multi-tensor kernels make for all at once.
    """

    name: str
    meaning: str
    source: str
    moments: int
    bits: int | None = None
    block: int | None = None
    update: int = 0

    def state_bytes(self, elements: Size, updated_bits: int) -> Size:
        """Bytes of all moments of `elements` parameters whose updated copy has so many bits."""
        bits = self.bits or updated_bits
        scales = 0 if self.block is None else 4 * ceil_div(elements, self.block)
        return self.moments * (elements * (bits // 8) + scales)


OPTIMIZERS = (
    Optimizer("sgd", "no state", "torch.optim.SGD", 0),
    Optimizer("momentum", "one moment", "torch.optim.SGD(momentum=...)", 1),
    Optimizer("adamw", "two moments in fp32", "Loshchilov & Hutter 2017 (arXiv:1711.05101)", 2, 32),
    Optimizer(
        "adamw-foreach",
        "adamw as torch.optim.AdamW runs it by default, with temporaries",
        "torch.optim.AdamW(foreach=True)",
        2,
        None,
        None,
        4,
    ),
    Optimizer("adamw-bf16", "two moments in bf16", "torch.optim.AdamW on bf16 weights", 2, 16),
    Optimizer(
        "adamw-8bit",
        "two moments in 8 bits, and a scale for each block of 256",
        "Dettmers et al. 2021 (arXiv:2110.02861); bitsandbytes.optim.AdamW8bit",
        2,
        8,
        256,
    ),
    Optimizer("lion", "one moment", "Chen et al. 2023 (arXiv:2302.06675)", 1, 32),
)
OPTIMIZER_BY_NAME = {optimizer.name: optimizer for optimizer in OPTIMIZERS}


def usual_optimizer(recipe: str | None) -> str:
    """AdamW as PyTorch runs it under a recipe: where weights are in bf16 alone, its moments are too."""
    return "adamw-bf16" if recipe == "bf16" else "adamw"


def optimizer(name: str) -> Optimizer:
    """The optimizer called `name`. Errors: Refused, with the known names."""
    word("optimizer", name, tuple(OPTIMIZER_BY_NAME))
    return OPTIMIZER_BY_NAME[name]
