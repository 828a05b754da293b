"""Timing matrix products in the layouts in which PyTorch runs them forward and back. Needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean

import torch
import torch.nn.functional as F  # noqa: N812

from harness.profiling.clock import Clock, Pool, repeats, several
from harness.profiling.samples import Key, Station
from harness.profiling.shapes import Heads, Layer


def layer_station(layer: Layer, clock: Clock, pool: Pool, group: str, rate: float, apart: bool) -> Station:
    """A dense layer forward, and the gradients of its input and of its weight.

    group: `gemm.fp32`. rate: FLOP/s, as far as known. apart: whether each layout is a group of its own (`.dgrad`,
    `.wgrad`, and `.biased` for a forward pass that adds a bias), as on a CPU, where they differ in speed.
    """

    def measure() -> Iterator[tuple[Key, float]]:
        tokens, d_in, d_out, trained, biased = layer
        runs = repeats(layer.flops / rate)
        inputs = several(lambda: (pool.take(tokens, d_in), pool.take(d_out, d_in)), runs)
        bias = pool.take(d_out) if biased else None
        forward = Key(f"{group}.biased" if biased and apart else group, (tokens, d_out, d_in, 1))
        yield forward, clock.each(lambda each: F.linear(each[0], each[1], bias), inputs)
        if not trained:
            return
        dgrad, wgrad = (group + end if apart else group for end in (".dgrad", ".wgrad"))
        pairs = several(lambda: (pool.take(tokens, d_out), pool.take(d_out, d_in)), runs)
        yield Key(dgrad, (tokens, d_in, d_out, 1)), clock.each(lambda each: each[0] @ each[1], pairs)
        pairs = several(lambda: (pool.take(tokens, d_out), pool.take(tokens, d_in)), runs)
        yield Key(wgrad, (d_out, d_in, tokens, 1)), clock.each(lambda each: each[0].t() @ each[1], pairs)

    return Station(f"{group} {layer.tokens}x{layer.d_in}x{layer.d_out}", measure)


def attention_station(heads: Heads, clock: Clock, pool: Pool, group: str, rate: float, apart: bool) -> Station:
    """The two products of attention in the open, and the four that go back (`.backward`, where `apart`).

    Forward, queries, keys and values are views of what the projections gave, which the product copies; going back
    reads those copies. What is kept of the weights is contiguous.
    """
    batch, n, seq, d = heads
    back = f"{group}.backward" if apart else group
    groups = batch * n
    scores, values = (seq, seq, d, groups), (seq, d, seq, groups)

    def view() -> torch.Tensor:
        return pool.take(batch, seq, n * d).unflatten(-1, (n, d)).transpose(1, 2)

    def measure() -> Iterator[tuple[Key, float]]:
        runs = repeats(heads.flops / rate)
        pairs = several(lambda: (view(), view()), runs)
        yield Key(group, scores), clock.each(lambda each: each[0] @ each[1].transpose(-2, -1), pairs)
        pairs = several(lambda: (pool.take(batch, n, seq, seq), view()), runs)
        yield Key(group, values), clock.each(lambda each: each[0] @ each[1], pairs)
        triples = several(lambda: tuple(pool.take(groups, seq, w) for w in (seq, d, d)), runs)
        yield Key(back, scores), clock.each(lambda each: each[1].bmm(each[2].transpose(1, 2)), triples)
        # Of queries, keys and values: alike in size, and one figure for the three.
        products = (
            lambda each: each[0].transpose(1, 2).bmm(each[1]),
            lambda each: each[0].bmm(each[1]),
            lambda each: each[1].transpose(1, 2).bmm(each[0]),
        )
        yield Key(back, values), mean(clock.each(product, triples) for product in products)

    return Station(f"{group} {batch}x{n}x{seq}x{d}", measure)


def measured_rate(clock: Clock, pool: Pool, size: int) -> float:
    """FLOP/s of a product of `size` squared, to know beforehand how long others take."""
    pairs = several(lambda: (pool.take(size, size), pool.take(size, size)), 4)
    return 2 * size**3 / clock.each(lambda each: F.linear(*each), pairs)
