"""Which matrix products are measured: those of layers as they are trained, spread over the sizes that a device runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from calc.spec.fields import DeviceKind
from harness.profiling.samples import between, halton, to_multiple

_WIDER = (1.0, 4.0, 0.25, 3.0, 8 / 3, 1.0, 0.375)
"""Width of a layer's result over that of its input: projections, a feed-forward block's two, fused ones, gated ones."""


class Layer(NamedTuple):
    """A dense layer from `d_in` to `d_out` on `tokens` vectors. trained: whether its gradients are measured too.

    biased: whether it adds a bias, which some libraries do in a pass of its own.
    """

    tokens: int
    d_in: int
    d_out: int
    trained: bool = True
    biased: bool = False

    @property
    def flops(self) -> float:
        return 2.0 * self.tokens * self.d_in * self.d_out


class Heads(NamedTuple):
    """Scores and weighted values of `batch` sequences of `seq` tokens."""

    batch: int
    heads: int
    seq: int
    d_head: int

    @property
    def flops(self) -> float:
        """Of one of its two products."""
        return 2.0 * self.batch * self.heads * self.seq**2 * self.d_head


class Reach(NamedTuple):
    """How far sizes go on a device. tokens, d_model, seq: the least and the most. step: widths are multiples of it.

    vocabularies: of heads, in turn. On a GPU all are multiples of 8: others make kernels of another kind run there,
    which calc/data/priors.toml tells of, and one model of both would fit neither.
    """

    tokens: tuple[int, int]
    d_model: tuple[int, int]
    seq: tuple[int, int]
    vocabularies: tuple[int, ...]
    step: int


REACH: dict[DeviceKind, Reach] = {
    "cpu": Reach((32, 4096), (128, 1024), (32, 768), (8_192, 50_257, 32_000, 16_384, 50_257), 64),
    "cuda": Reach((64, 32_768), (512, 12_288), (256, 4096), (8_192, 50_304, 32_000, 16_384, 128_256), 128),
}


def layers(reach: Reach, count: int, flops: float) -> list[Layer]:
    """`count` layers within `reach`, none with a product of more than `flops`; each part of the list covers all sizes.

    One in six has a few tokens, as in decoding, and is not trained; one in nine is a head over a vocabulary. Of the
    others every second has a bias.
    """
    return [_layer(reach, i, place, flops) for i, place in enumerate(halton(count))]


def _layer(reach: Reach, i: int, place: Sequence[float], flops: float) -> Layer:
    d_in = to_multiple(between(*reach.d_model, place[0]), reach.step)
    head = i % 9 == 4
    vocabulary = reach.vocabularies[i // 9 % len(reach.vocabularies)]
    d_out = vocabulary if head else to_multiple(d_in * _WIDER[i % len(_WIDER)], reach.step)
    if i % 6 == 5:
        return Layer(max(round(between(1, 32, place[1])), 1), d_in, d_out, trained=False, biased=i % 4 == 1)
    tokens = between(*reach.tokens, place[1])
    most = flops / (2 * d_in * d_out)
    if most < reach.tokens[0]:
        d_out = to_multiple(d_out * most / reach.tokens[0], reach.step)
    tokens = to_multiple(min(tokens, flops / (2 * d_in * d_out)), 16)
    return Layer(tokens, d_in, d_out, biased=not head and i % 2 == 0)


def attention_shapes(reach: Reach, count: int, flops: float) -> list[Heads]:
    """`count` attention_shapes within `reach`, none with a product of more than `flops`."""
    made = []
    for i, (first, second, third) in enumerate(halton(count)):
        d_head = (64, 64, 32, 128)[i % 4]
        seq = to_multiple(between(*reach.seq, first), 16)
        d_model = to_multiple(between(*reach.d_model, second), d_head)
        heads = d_model // d_head
        most = max(flops / (2 * heads * seq**2 * d_head), 1)
        batch = round(between(1, max(min(most, reach.tokens[1] / seq), 1), third))
        made.append(Heads(max(batch, 1), heads, seq, d_head))
    return made


def sizes_of(low: int, high: int, count: int) -> Iterator[int]:
    """`count` numbers of elements from low to high, evenly in logarithms."""
    for i in range(count):
        yield round(between(low, high, i / max(count - 1, 1)))
