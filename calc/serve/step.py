"""The seconds of one step of an engine: tokens of running sequences and pieces of prompts in one pass over the weights.

All of it is arithmetic: numbers give a number, columns of very many configurations a column.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from calc.sizes import maximum

EXPERTS_LAUNCHED = 8
"""Kernels of a layer of experts: to choose, sort and narrow rows, for both products, between them, and to sum."""


class StepLoad(NamedTuple):
    """What one step does on one rank of attention.

    decodes: sequences that get a token each (with speculation, `tokens` of them). prompt: tokens of prompts.
    cache_bytes, decode_flops: of attention over what the decoding sequences have cached. prompt_flops: of attention of
    the prompts' pieces. sampled: rows of logits. tokens: that each decoding sequence brings. readers: ranks of
    attention that read as many tokens of prompts at once, while the others, which wait for them, read none.
    """

    decodes: Any
    prompt: Any
    cache_bytes: Any
    decode_flops: Any
    prompt_flops: Any
    sampled: Any
    tokens: Any = 1.0
    readers: Any = 1.0


class Rates(NamedTuple):
    """What a device reaches, in FLOP/s, bytes a second and seconds.

    narrow: of products in the weights' format; wide: of 16 bits; grouped: of experts' products. streaming: of weights
    that are read; experts: of experts' weights; tile: rows that an expert's products compute besides those of its
    tokens; sorting: seconds for a byte of a token's row at each of its experts; cache: of attention's. decoding,
    prompts: FLOP/s of attention. pass_rate: bytes a second of what lies between kernels. kernel: of each that is
    launched; eager: of the host for each that it launches in a step with prompts, which is not replayed from a graph;
    quantise: of each input that is narrowed ahead of a product; routing: of a layer of experts, to sort tokens by them.
    link, latency: of sums between ranks of one sequence; wide_link, wide_latency: of exchanges between all of a stage;
    stage_link, stage_latency: of what a stage of a pipeline hands to the next. step: of the host for a step;
    sequence: for each sequence in it, while the device works; serial: the same, while it does not. skew: how much
    more than its share the busiest of many ranks of experts has. evenness: how many of further tokens choose for
    themselves: 1 where choices are even.
    """

    narrow: Any
    wide: Any
    grouped: Any
    streaming: Any
    experts: Any
    tile: Any
    sorting: Any
    cache: Any
    decoding: Any
    prompts: Any
    pass_rate: Any
    kernel: Any
    eager: Any
    quantise: Any
    routing: Any
    link: Any
    latency: Any
    wide_link: Any
    wide_latency: Any
    stage_link: Any
    stage_latency: Any
    step: Any
    sequence: Any
    serial: Any
    skew: Any
    evenness: Any


class StepTime(NamedTuple):
    """Seconds of a step, by what takes them."""

    matrices: Any
    experts: Any
    head: Any
    attention: Any
    prompts: Any
    passes: Any
    launching: Any
    communication: Any
    host: Any
    drafting: Any

    @property
    def total(self) -> Any:
        """All of a step."""
        return sum(self)


def step_time(rank: Any, load: StepLoad, rates: Rates) -> StepTime:
    """The seconds of a step on a rank.

    rank: a `calc.serve.rank.Rank`, or columns of such numbers. A pipeline's stages run one after the other, each on
    1 / pp of the sequences and of the prompts' tokens: while one is at work, the others have theirs, so that a step is
    as long as each of them is busy. A sequence passes all of them one after the other: fewer sequences than there are
    stages leave some idle. What a prompt takes besides until it is through the last, `StepClock.way` says.
    """
    passes = _passed(rank, load, rates)
    # The host schedules and hands out tokens while the device works; a device that is done sooner waits for it.
    # Steps of prompts are launched kernel by kernel besides.
    device = passes.total - passes.host
    host = passes.host + longer(device, waiting_of(rank, load, rates)) - device
    return passes._replace(host=host, drafting=_drafting(rank, load, rates, device))


def waiting_of(rank: Any, load: StepLoad, rates: Rates) -> Any:
    """Seconds of the host for what it does of a step while the device works."""
    launched = rank.kernels + rank.sums + rank.exchanges + rank.narrowed + rank.moe_layers * EXPERTS_LAUNCHED
    return rates.sequence * load.decodes + (load.prompt > 0) * launched * rates.eager


def _passed(rank: Any, load: StepLoad, rates: Rates) -> StepTime:
    """The seconds of a pass over the model, and of the host what a device cannot hide."""
    batch = one_batch(load.decodes, rank.pp)
    decoded, read = load.decodes * load.tokens * batch, load.prompt / rank.pp
    new, everyone = decoded + read, decoded * rank.dp + read * load.readers
    return StepTime(
        matrices=bound(2 * rank.dense * new, rank.dense_bytes, rates.narrow, rates.streaming)
        + bound(2 * rank.wide * new, rank.wide_bytes, rates.wide, rates.streaming),
        experts=_experts(rank, everyone, rates),
        head=bound(2 * rank.head * load.sampled / rank.pp, rank.head_bytes, rates.wide, rates.streaming),
        attention=bound(load.decode_flops * batch, load.cache_bytes * batch, rates.decoding, rates.cache),
        prompts=load.prompt_flops / rank.pp / rates.prompts,
        passes=(rank.moved * new + rank.states * load.decodes * batch) / rates.pass_rate
        + rank.other_flops * new / rates.wide,
        launching=rank.kernels * rates.kernel + rank.narrowed * rates.quantise + rank.moe_layers * rates.routing,
        communication=_communication(rank, new, everyone, rates),
        host=rates.step + rates.serial * load.decodes,
        drafting=0.0,
    )


def one_batch(sequences: Any, stages: Any) -> Any:
    """The part of so many sequences that a stage of a pipeline works on at a time: one of them where there are fewer
    than stages."""
    return maximum(1 / stages, 1 / maximum(sequences, 1.0))


def _drafting(rank: Any, load: StepLoad, rates: Rates, device: Any) -> Any:
    """A guesser is a part of the model. It reads what the step does, prompts too, which gives the first guess; each
    further one is a pass of one token of every sequence that decodes or whose prompt ends."""
    import numpy as np

    if not (rank.drafting if isinstance(rank.drafting, float) else np.any(rank.drafting)):
        return 0.0
    sequences = load.decodes + load.sampled - load.decodes * load.tokens
    each = np.maximum(sequences, 1.0)
    alone = StepLoad(each, 0.0, load.cache_bytes, load.decode_flops / load.tokens, 0.0, each)
    further = _passed(rank, alone, rates)
    guesses = (load.tokens - 2) * np.minimum(sequences, 1.0)
    return rank.drafting * (device + guesses * (further.total - further.host))


def bound(flops: Any, moved: Any, peak: Any, bandwidth: Any) -> Any:
    """Seconds of a kernel that computes and moves so much: (a^4 + b^4)^(1/4) of the two bounds, the longer of them
    where they are far apart and 19 % above where they are equal."""
    return longer(flops / peak, moved / bandwidth)


def longer(one: Any, other: Any) -> Any:
    """Of two that go on at once, the seconds until both are done: (a^4 + b^4)^(1/4)."""
    one, other = one * one, other * other
    return ((one * one + other * other) ** 0.5) ** 0.5


def _experts(rank: Any, tokens: Any, rates: Rates) -> Any:
    """Routed experts: those that the tokens visit are read, by the expectation of even choices."""
    chance = rank.top_k / (rank.n_experts + (rank.n_experts == 0))
    alike = 1 + (tokens - 1) * rates.evenness
    reached = rank.local * (1 - (1 - chance) ** alike)
    busiest = 1 + rates.skew * (1 - 1 / rank.ep)
    rows = tokens * rank.top_k / rank.ep * busiest
    flops = 2 * rank.expert * (rows + rates.tile * reached)
    products = bound(flops, reached * rank.expert_bytes * busiest, rates.grouped, rates.experts)
    return products + rows * rank.moe_layers * rank.message * rates.sorting


def _communication(rank: Any, tokens: Any, everyone: Any, rates: Rates) -> Any:
    """Sums over ranks: each sends and receives 2 (n - 1) / n of a message. What attention and dense matrices give is
    summed by the ranks of a sequence; where ranks of attention hold different ones, the tokens of all go to all ranks
    of experts and their sums come back. tokens: of one rank of attention; everyone: of all."""
    ranks = rank.tp * rank.dp
    crossing = 2 * (rank.tp - 1) / rank.tp * rank.summed * tokens
    sums = rank.sums * (rates.latency + crossing / rates.link)
    wide = 2 * (ranks - 1) / ranks * rank.message * everyone
    exchanges = rank.exchanges * (rates.wide_latency + wide / rates.wide_link)
    return sums + exchanges + (rank.pp - 1) * (rates.stage_latency + rank.message * tokens / rates.stage_link)
