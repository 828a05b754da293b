"""In which order each stage of a pipeline runs the pieces of its micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from calc.errors import Refused

What = Literal["forward", "backward", "weights"]


class Task(NamedTuple):
    """One piece of work of a stage. what: `weights` is that half of going back which makes weights' gradients, where a
    schedule runs it apart. chunk: which of the stage's pieces of layers."""

    what: What
    micro_batch: int
    chunk: int = 0


Order = list[Task]
"""What one stage runs, from first to last."""


def gpipe(stage: int, pp: int, micro_batches: int, chunks: int) -> Order:
    """All forward, then all back (Huang et al. 2018, arXiv:1811.06965)."""
    every = range(micro_batches)
    return [Task("forward", i) for i in every] + [Task("backward", i) for i in reversed(every)]


def one_forward_one_back(stage: int, pp: int, micro_batches: int, chunks: int) -> Order:
    """As many forward as there are stages behind, then one forward and one back (Narayanan et al. 2021,
    arXiv:2104.04473, figures 3 and 4); where a stage holds several pieces, of pp micro-batches at a time the one piece
    before the next."""
    if chunks == 1:
        warm = min(pp - stage - 1, micro_batches)
    else:
        if micro_batches % pp:
            raise Refused("micro-batches", f"a multiple of pp = {pp} where stages hold pieces", micro_batches)
        warm = min(2 * (pp - stage - 1) + (chunks - 1) * pp, micro_batches * chunks)
    forward = [Task("forward", *_place(i, pp, chunks)) for i in range(micro_batches * chunks)]
    backward = [_turned(Task("backward", *_place(i, pp, chunks)), chunks) for i in range(micro_batches * chunks)]
    order, rest = forward[:warm], forward[warm:]
    for i, task in enumerate(rest):
        order += [task, backward[i]]
    return order + backward[len(rest) :]


def zero_bubble(stage: int, pp: int, micro_batches: int, chunks: int) -> Order:
    """One forward and one back of which weights' gradients wait until nothing else can run (Qi et al. 2023,
    arXiv:2401.10241, section 2.1: ZB-H1, which holds no more activations than one forward and one back)."""
    order: Order = []
    waiting: list[int] = []
    for task in one_forward_one_back(stage, pp, micro_batches, 1):
        order.append(task)
        if task.what == "backward":
            waiting.append(task.micro_batch)
            # A stage may owe as many as it has stages ahead of it: so long it waits for the first of them.
            if len(waiting) > stage:
                order.append(Task("weights", waiting.pop(0)))
    return order + [Task("weights", i) for i in waiting]


ORDERS: Mapping[str, Callable[[int, int, int, int], Order]] = {
    "gpipe": gpipe,
    "1f1b": one_forward_one_back,
    "zero-bubble": zero_bubble,
}
"""Schedule -> the order of one stage, of how many, with how many micro-batches and pieces."""
SCHEDULES = (*ORDERS, "dualpipe")
"""All whose order is known. DualPipe runs two micro-batches at once and has a file of its own."""


def _place(number: int, pp: int, chunks: int) -> tuple[int, int]:
    """(micro-batch, chunk) of the number-th piece that a stage runs forward."""
    if chunks == 1:
        return number, 0
    group, within = divmod(number, pp * chunks)
    chunk, place = divmod(within, pp)
    return group * pp + place, chunk


def _turned(task: Task, chunks: int) -> Task:
    """Going back begins with the last piece."""
    return task._replace(chunk=chunks - 1 - task.chunk)
