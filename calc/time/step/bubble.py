"""What a stage of a pipeline waits while others fill and empty it, by the order in which stages work.

Closed forms, for one plan or for columns of them; `calc.time.schedule` has the same as events.
"""

from __future__ import annotations

from typing import NamedTuple

from calc.sizes import Size, maximum
from calc.spec.run import Run


class Work(NamedTuple):
    """Seconds of one micro-batch on a stage, or on several together. forward: those that go forward; weights: those of
    products for weights' gradients, which nothing waits for before the optimizer."""

    seconds: Size
    forward: Size
    weights: Size


def bubble(run: Run, own: Work, others: Work, first: Size) -> Size:
    """Seconds of a step that a stage waits, of which one micro-batch is `own` work, and `others` on all other stages
    together. first: of weights' gradients, those of the first stage.

    One forward and one back, or all forward first: as long as a micro-batch takes on the others, and a part of it where
    stages hold several pieces (Narayanan et al. 2021, arXiv:2104.04473, section 2.2).
    """
    if run.schedule == "zero-bubble":
        return _weights_put_off(run.passes_a_step, own, others, first)
    if run.schedule == "dualpipe":
        return _from_both_ends(run.pp, own, others)
    return others.seconds / run.interleave


def _weights_put_off(micro_batches: Size, own: Work, others: Work, first: Size) -> Size:
    """Under ZB-H1 stages run products for weights' gradients where they would wait (Qi et al. 2023, arXiv:2401.10241,
    section 2: (p - 1)(F + B - W)). With few micro-batches there are not enough of them: the first stage has gone back
    when all others have, and then has its own."""
    enough = others.seconds - 2 * others.weights
    few = others.seconds - others.weights + first - micro_batches * own.weights
    return maximum(enough, few)


def _from_both_ends(pp: Size, own: Work, others: Work) -> Size:
    """DualPipe feeds the pipeline from both ends: (p / 2 - 1)(F&B + B - 3W) with F&B = F + B, where B has the gradients
    of weights too (DeepSeek-V3, arXiv:2412.19437, table 2). That is of ranks that are alike. One that is slower than
    the others' mean waits less: while they fill and empty the pipeline it has work of its own, about p micro-batches.
    """
    of_one = 1 / maximum(pp - 1, 1)
    waits = maximum(pp / 2 - 1, 0) * of_one * (2 * others.seconds - others.forward - 3 * others.weights)
    slower = maximum(own.seconds - of_one * others.seconds, 0.0)
    return maximum(waits - pp * slower, 0.0)
