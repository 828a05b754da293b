"""A server in its steady state, in closed form over columns: fixed lengths, and so many requests always under way.

Of `D` sequences that decode, D / (output - 1) finish in every step, and as many prompts must be read in its time. Where
prompts share steps with them, a part k = D * input / ((output - 1) * P) of all steps has P tokens of prompts in it, and
a token takes (1 - k) * plain + k * full; where prompts have steps of their own, plain + k * full. By Little's law the
sequences that decode are to those that are read as the times of the two; that fixes D. Ranks of attention read one
prompt each: of fewer prompts than ranks, some read none and wait.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from calc.serve.operating_point import LEAST, Lengths, OperatingPoint, step_of, way_of
from calc.serve.step import Rates

ROUNDS = 8
"""Iterations of D, each of which leaves a tenth of the distance or less."""


class Steady(NamedTuple):
    """Seconds: ttft, to the first token; tpot, of each later one; e2e, of a whole request; queue, of ttft, what a
    request waits for others to leave. requests: finished in a second by one replica. decoding: sequences that get
    tokens at once. mixed: of all steps, those with prompts in them, or prompts' steps for each other. plain, full:
    seconds of a step without prompts and with as many as fit."""

    ttft: Any
    tpot: Any
    e2e: Any
    queue: Any
    requests: Any
    decoding: Any
    mixed: Any
    plain: Any
    full: Any


class _Reading(NamedTuple):
    tpot: Any
    waits: Any
    reading: Any
    mixed: Any
    plain: Any
    full: Any
    most: Any
    prompts: Any


def steady(rank: Any, rates: Rates, point: OperatingPoint, lengths: Lengths, request: Any, mixed: Any) -> Steady:
    """The steady state of one replica whose clients send a request as soon as another is answered.

    request: seconds of the host for each request, ahead of the engine. mixed: 1 where prompts share steps with
    sequences that decode, 0 where they have their own. Columns give columns.
    """
    import numpy as np

    held = np.minimum(point.concurrency, point.running) * 1.0
    after = (point.output - 1) / point.accepted
    decoding = held
    for _ in range(ROUNDS):
        now = _at(rank, rates, point, lengths, mixed, decoding, held)
        decoding = _finished(point, now, request) * after * now.tpot
        decoding = np.where(mixed > 0, np.minimum(decoding, now.most), decoding)
    now = _at(rank, rates, point, lengths, mixed, decoding, held)
    # Where an answer is its first token alone, steps are prompts, and as many are read as steps hold.
    alone = np.minimum(_finished(point, now, request), now.prompts / point.unread / now.full)
    requests = np.where(after > 0, decoding / np.maximum(after * now.tpot, 1e-12), alone)
    requests = np.maximum(requests, 1e-300)
    rest = after * now.tpot + request
    reading = np.maximum(held / requests - rest, now.waits + now.reading)
    queue = np.maximum(point.concurrency / requests - rest - reading, 0.0)
    ttft = request + reading + queue
    return Steady(
        ttft,
        now.tpot / point.accepted,
        ttft + after * now.tpot,
        queue,
        requests,
        decoding,
        now.mixed,
        now.plain,
        now.full,
    )


def _finished(point: OperatingPoint, now: _Reading, request: Any) -> Any:
    """Requests that are answered in a second, by Little's law: of all that are under way, and of those that run, which
    wait neither at the host nor for a step."""
    import numpy as np

    runs = np.maximum((point.output - 1) / point.accepted * now.tpot + now.reading, 1e-12)
    return np.minimum(point.concurrency / (request + now.waits + runs), point.running / runs)


def _at(
    rank: Any, rates: Rates, point: OperatingPoint, lengths: Lengths, mixed: Any, decoding: Any, held: Any
) -> _Reading:
    """What follows from so many sequences that decode: `tpot` of a step with a token for each, and the time in which
    one prompt is read."""
    import numpy as np

    new = point.input - point.cached
    after = np.maximum((point.output - 1) / point.accepted, 1e-9)
    own = decoding / rank.dp
    budget = point.budget * rank.pp
    plain = step_of(rank, rates, point, lengths, np.maximum(own, np.minimum(1.0, decoding)), 0.0)
    free = np.maximum(budget - mixed * own * point.drafted, np.minimum(budget, 16.0))
    all_prompts = held * new
    arriving = np.where(point.output > 1, np.minimum(decoding * new / after, all_prompts), all_prompts)
    piece = np.minimum(new, free)
    # Of prompts that come one by one, some come in the same step: other ranks read those meanwhile.
    each = np.maximum(arriving / np.maximum(piece, LEAST), LEAST)
    alike = np.minimum(each / -np.expm1(-each), rank.dp)
    least = piece * np.maximum(np.maximum(held, 1.0) ** point.together, alike)
    least = np.maximum(least, (point.polls > 1) * arriving * point.polls)
    held_back, others = _held_back(rank, point, decoding)
    least = np.maximum(least, (held_back > 0) * (1 + others) * new)
    prompts = np.minimum(np.maximum(arriving, least), free * rank.dp)
    readers = np.clip(prompts / np.maximum(piece, LEAST), 1.0, rank.dp)
    prompt = np.minimum(prompts / readers, free)
    prompts = prompt * readers
    full = step_of(rank, rates, point, lengths, mixed * own, prompt, readers)
    part = arriving / np.maximum(prompts, LEAST)
    tpot = np.where(mixed > 0, plain + np.minimum(part, 1.0) * (full - plain), plain + part * full)
    step = np.where(part < 1, plain + part * (full - plain), full)
    # The first of those that are read together waits for all of these steps, others on the average for half of them.
    for_others = held_back * (1 + others / 2) / (1 + others) * plain
    waits = (step + (point.polls - 1) * plain) / 2 + point.ahead * step + for_others
    waits = waits * (1 - 1 / np.maximum(held, 1.0))
    most = free * after / point.unread * rank.dp
    way = way_of(rank, rates, point, lengths, mixed * own, prompt, readers)
    reading = (new > 0) * (np.maximum(new / free, 1.0) * full + way)
    return _Reading(tpot, waits, reading, part, plain, full, most, prompts)


def _held_back(rank: Any, point: OperatingPoint, decoding: Any) -> tuple[Any, Any]:
    """Steps for which a prompt is held back that finds none, and how many come after it meanwhile."""
    import numpy as np

    each = decoding / np.maximum((point.output - 1) / point.accepted, 1e-9)
    enough = np.maximum((point.filled - decoding / rank.dp) * rank.dp / point.unread, point.gathered)
    steps = np.minimum(point.holding, np.maximum(enough - 1, 0.0) / np.maximum(each, LEAST)) + point.further
    return steps, each * steps


def with_burst(
    rank: Any, rates: Rates, point: OperatingPoint, lengths: Lengths, found: Steady, request: Any, part: Any
) -> Steady:
    """What is seen where a part of all requests come at once, as those with which a benchmark begins: they are read one
    after the other, and the first wait with their second token for the last. part: 1 where all keep in step."""
    import numpy as np

    new = point.input - point.cached
    held = np.minimum(point.concurrency, point.running) / rank.dp
    budget = point.budget * rank.pp
    readers = np.clip(held * rank.dp, 1.0, rank.dp)
    own = held * rank.dp / readers * new
    all_at_once = np.minimum(budget, own)
    reading = own / all_at_once * step_of(rank, rates, point, lengths, 0.0 * held, all_at_once, readers)
    one = np.minimum(new, budget)
    way = way_of(rank, rates, point, lengths, 0.0 * held, one)
    each = step_of(rank, rates, point, lengths, 0.0 * held, one) * np.maximum(new / budget, 1.0) + way
    mean = np.maximum((reading + way + each) / 2, each)
    after = np.maximum((point.output - 1) / point.accepted, 1e-9)
    in_step = part >= 1
    ttft = np.where(in_step, request + mean + found.queue, found.ttft + part * np.maximum(mean - each, 0.0))
    tpot = np.where(in_step, (found.plain + (reading - mean) / after) / point.accepted, found.tpot)
    return found._replace(ttft=ttft, tpot=tpot, e2e=ttft + (point.output - 1) * tpot)
