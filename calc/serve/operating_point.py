"""What a server in its steady state is asked, in numbers or columns, and the seconds of one of its steps."""

from __future__ import annotations

from typing import Any, NamedTuple

from calc.serve.rank import at
from calc.serve.step import Rates, StepLoad, step_time

LEAST = 1e-9
"""Tokens that stand for none where something is divided by them."""


class OperatingPoint(NamedTuple):
    """Numbers, or columns: tokens of prompts (of which `cached` have their keys and values already; all of them
    where others have read it and given the first token) and of answers, requests under way on one replica, tokens
    of one step, sequences that run at once at most; and where something guesses ahead, tokens that a sequence gets
    in a step (`accepted`) of those it runs (`drafted`). together: how many requests come at once, as a power of
    those under way: 0 where they come one by one, more where those of one length began together, and so end
    together. polls: steps between two looks at who has come. ahead: 1 where a step is laid while another runs, so
    that who comes waits for one more. holding: steps for which prompts are held back at most, while a step with them
    had fewer tokens than `filled` or fewer prompts than `gathered`; further: and those after."""

    input: Any
    output: Any
    concurrency: Any
    budget: Any
    running: Any
    cached: Any = 0.0
    accepted: Any = 1.0
    drafted: Any = 1.0
    together: Any = 0.0
    polls: Any = 1.0
    ahead: Any = 0.0
    holding: Any = 0.0
    filled: Any = 0.0
    gathered: Any = 0.0
    further: Any = 0.0

    @property
    def unread(self) -> Any:
        """Tokens of a prompt that are to be read, and next to none where others have read it all."""
        import numpy as np

        return np.maximum(self.input - self.cached, LEAST)


class Lengths(NamedTuple):
    """What attention asks at a workload's lengths, of one sequence: bytes and FLOPs of a new token half-way through the
    answer, FLOPs of the whole prompt behind what is cached."""

    cache: Any
    decoding: Any
    prompt: Any


def lengths_of(rank: Any, input: Any, output: Any, cached: Any = 0.0) -> Lengths:
    """What attention asks of one rank at these lengths."""
    middle = input + output / 2
    return Lengths(
        at(rank.decode_bytes, middle),
        at(rank.decode_flops, middle),
        at(rank.prompt_flops, input) - at(rank.prompt_flops, cached),
    )


def step_of(
    rank: Any, rates: Rates, point: OperatingPoint, lengths: Lengths, decoding: Any, prompt: Any, readers: Any = 1.0
) -> Any:
    """Seconds of a step with so many decoding sequences on each rank of attention, and tokens of prompts on so many
    `readers` of them."""
    share = prompt / point.unread
    load = StepLoad(
        decoding,
        prompt,
        decoding * lengths.cache,
        decoding * point.drafted * lengths.decoding,
        lengths.prompt * share,
        decoding * point.drafted + share,
        point.drafted,
        readers,
    )
    return step_time(rank, load, rates).total


def way_of(
    rank: Any, rates: Rates, point: OperatingPoint, lengths: Lengths, decoding: Any, prompt: Any, readers: Any = 1.0
) -> Any:
    """Seconds from the end of a step with so many tokens of prompts until the last of them are through all stages of a
    pipeline, as `StepClock.way` has it."""
    import numpy as np

    if np.all(rank.pp == 1):  # one stage is the whole way
        return 0.0
    one_batch = np.minimum(prompt, point.budget) * rank.pp
    return (rank.pp - 1) / rank.pp * step_of(rank, rates, point, lengths, decoding, one_batch, readers)
