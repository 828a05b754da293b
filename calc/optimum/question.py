"""What can be asked of a law, and what its answer holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from calc.laws.uncertainty import Interval
from calc.spec import ModelSpec

GIVEN = ("compute", "params", "tokens", "loss", "gpu_days", "money")
"""What an optimum may be asked for; exactly one of them."""


class OptimumRequest(TypedDict, total=False):
    """The question: one of GIVEN, and what goes beyond it.

    compute: FLOPs of training. params: N as the law counts it. tokens: D. loss: nats a token of the law's own data.
    gpu_days, money: with gpu (a device of the catalogue), mfu (0 to 1) and, for money, price (of a GPU-hour). gpus: how
    many, for the days that the run takes. family: a model whose shape is scaled and whose FLOPs are counted exactly,
    in sequences of `seq` tokens. inference_tokens: tokens of use; the answer then has its loss for the fewest FLOPs
    of training and use together: the optimum's loss where params, tokens or a loss is given, else the one for which
    training takes the budget. unique_tokens: more tokens than these are repeated ones. experts, granularity,
    sparsity: of a law of experts (`Law.routing`); a family has its own.
    """

    compute: float
    params: float
    tokens: float
    loss: float
    gpu_days: float
    money: float
    gpu: str
    mfu: float
    gpus: int
    price: float
    family: ModelSpec
    seq: int
    inference_tokens: float
    unique_tokens: float
    experts: float
    granularity: float
    sparsity: float


ROUTING = ("experts", "granularity", "sparsity")
"""What is asked of experts beside an amount."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """A law's answer. compute: FLOPs of training. loss: None where the law predicts none.

    interval: by the names of this class's numbers, what the law's own uncertainty leaves open; what is not in it has no
    known uncertainty or was given. interval_source: where it is from, or why there is none.
    convention: what N, C and D count in it. in_range: whether all three lie in what the law was fitted on; warnings say
    what does not, and more. deviation: factor on N -> compute over the least for the same loss.
    hyperparameters: whose rule gave batch_tokens and learning_rate. more: what else was asked for: gpu_days, days,
    cost, epochs, plain_compute and plain_params (of the optimum without use,
    whose loss this one has), total_compute, cost_ratio, tokens_ratio, scale (of the family's width and depth).
    routing: of a law of experts, the routing that was asked for or that the family has. rules: batch in tokens and
    learning rate by every rule that is known (`calc.laws.hyperparameters.every`).
    """

    law: str
    compute: float
    params: float
    tokens: float
    loss: float | None
    batch_tokens: float
    learning_rate: float | None
    hyperparameters: str
    convention: str
    in_range: bool
    warnings: tuple[str, ...]
    interval: Mapping[str, Interval]
    interval_source: str
    deviation: Mapping[float, float]
    more: Mapping[str, float] = field(default_factory=dict)
    routing: Mapping[str, float] = field(default_factory=dict)
    rules: Mapping[str, tuple[float | None, float]] = field(default_factory=dict)

    @property
    def tokens_per_param(self) -> float:
        return self.tokens / self.params
