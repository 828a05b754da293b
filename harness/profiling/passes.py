"""Timing passes over memory, forward and back, by running the reference models' own modules. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Norm
from calc.time.kernels.kernel import pass_bytes, width_of
from harness.profiling.clock import Clock, Pool, repeats, several
from harness.profiling.samples import Key, Station
from harness.profiling.shapes import sizes_of
from reference_models.blocks.attend import added_mask
from reference_models.blocks.linear import ACTIVATIONS, NormLayer, wide
from reference_models.blocks.positions import laid, turn
from reference_models.objectives.common import cross_entropy


class Made(NamedTuple):
    """A pass over so many elements. run: of one input; make: one input, a tensor or several; weights: what else it
    reads that has a gradient; given: what else it reads that has none."""

    run: Callable[[Any], Tensor]
    make: Callable[[], Any]
    elements: int
    weights: tuple[Tensor, ...] = ()
    given: tuple[Tensor, ...] = ()


Maker = Callable[[Pool, int], Made]
_D_HEAD, _VOCABULARY = 64, 8192
_ROWS = 64
_SPEED = 4e9
"""Bytes a second, low enough for a guess at how long a pass takes on any device."""


@dataclass(frozen=True)
class Pass:
    """A pass to measure. smallest, largest: elements, as `pass_bytes` counts them, on a CPU. trained: backward too."""

    make: Maker
    trained: bool = True
    smallest: int = 2**13
    largest: int = 2**22


def _width(elements: int) -> int:
    """A width of vectors that goes with that many elements."""
    return 256 if elements < 2**17 else 768 if elements < 2**21 else 1024


def _vectors(elements: int) -> tuple[int, int]:
    width = _width(elements)
    return max(elements // width, 1), width


def _elementwise(run: Callable[[Tensor], Tensor]) -> Maker:
    def make(pool: Pool, elements: int) -> Made:
        rows, width = _vectors(elements)
        return Made(run, lambda: pool.leaf(1, rows, width), rows * width)

    return make


def _two(run: Callable[[Tensor, Tensor], Tensor]) -> Maker:
    def make(pool: Pool, elements: int) -> Made:
        rows, width = _vectors(elements)
        shape = (1, rows, width)
        return Made(lambda both: run(*both), lambda: (pool.leaf(*shape), pool.leaf(*shape)), rows * width)

    return make


def _norm(spec: Norm) -> Maker:
    def make(pool: Pool, elements: int) -> Made:
        rows, width = _vectors(elements)
        module = NormLayer(spec, (width,)).to(pool.device, pool.dtype)
        return Made(module, lambda: pool.leaf(1, rows, width), rows * width, tuple(module.parameters()))

    return make


def _softmax(pool: Pool, elements: int) -> Made:
    """What `attend` does between its two products: scale, mask, softmax in float32, back to the model's format."""
    seq = 64 if elements < 2**16 else 256 if elements < 2**20 else 512
    heads = max(elements // seq**2, 1)
    mask = torch.ones(1, 1, seq, seq, dtype=torch.bool, device=pool.device).tril()

    def run(scores: Tensor) -> Tensor:
        scores = scores * _D_HEAD**-0.5
        scores = scores + added_mask(mask, scores.dtype)
        return wide(scores).softmax(-1).to(scores.dtype)

    return Made(run, lambda: pool.leaf(1, heads, seq, seq), heads * seq**2, given=(mask,))


def _rope(pool: Pool, elements: int) -> Made:
    heads = 4 if elements < 2**18 else 12
    seq = max(elements // (heads * _D_HEAD), 1)
    angles = pool.take(1, 1, seq, _D_HEAD // 2)
    cos, sin = (laid(each, interleaved=False) for each in (angles.cos(), angles.sin()))

    def make() -> Tensor:
        return pool.heads(1, seq, heads, _D_HEAD)

    return Made(lambda x: turn(x, cos, sin, interleaved=False), make, heads * seq * _D_HEAD, given=(cos, sin))


def _cross_entropy(pool: Pool, elements: int) -> Made:
    rows = max(elements // _VOCABULARY, 1)
    targets = torch.randint(_VOCABULARY, (1, rows), device=pool.device)
    shape = (1, rows, _VOCABULARY)
    elements = rows * _VOCABULARY
    return Made(lambda logits: cross_entropy(logits, targets), lambda: pool.leaf(*shape), elements, given=(targets,))


def _gather(pool: Pool, elements: int) -> Made:
    """Rows of a table small enough that its zeros cost little: a profile has those apart, as `fill`."""
    rows, width = _vectors(elements)
    table = pool.leaf(_ROWS, width)
    # Numbers as of text: some tokens often, most of them seldom.
    numbers = several(lambda: (torch.rand(1, rows, device=pool.device) ** 3 * _ROWS).long(), 4)
    turns = cycle(numbers)
    return Made(lambda which: F.embedding(which, table), lambda: next(turns), rows * width, (table,))


def _transpose(pool: Pool, elements: int) -> Made:
    heads = 4 if elements < 2**18 else 12
    seq = max(elements // (heads * _D_HEAD), 1)
    shape = (1, heads, seq, _D_HEAD)
    return Made(lambda x: x.transpose(1, 2).flatten(2), lambda: pool.take(*shape), heads * seq * _D_HEAD)


def _into(run: Callable[[Tensor, Tensor], Tensor]) -> Maker:
    """Of a tensor that may be written to and one that is read; no gradient is wanted."""

    def make(pool: Pool, elements: int) -> Made:
        shape = _vectors(elements)
        return Made(lambda both: run(*both), lambda: (pool.scratch(*shape), pool.take(*shape)), shape[0] * shape[1])

    return make


PASSES: dict[str, Pass] = {
    "layernorm": Pass(_norm(Norm(kind="layernorm", bias=True))),
    "add": Pass(_into(torch.add), trained=False),
    # Where the stream forks, autograd adds the second gradient to the first.
    "add.backward": Pass(_into(lambda x, y: x.add_(y)), trained=False),
    "softmax": Pass(_softmax, largest=2**23),
    "gelu": Pass(_elementwise(ACTIVATIONS["gelu"])),
    "cross_entropy": Pass(_cross_entropy, smallest=2**17, largest=2**24),
    "copy": Pass(_into(lambda x, y: x.copy_(y)), trained=False, smallest=2**12, largest=2**23),
    "transpose": Pass(_transpose, trained=False),
    "sum": Pass(_into(lambda x, y: y.sum(0)), trained=False),
    "gather": Pass(_gather),
    "fill": Pass(_into(lambda x, y: x.zero_()), trained=False, smallest=2**14, largest=2**24),
    "accumulate": Pass(_into(lambda x, y: x.add_(y)), trained=False, smallest=2**12, largest=2**23),
    "rmsnorm": Pass(_norm(Norm())),
    "swiglu": Pass(_two(lambda gate, up: F.silu(gate) * up)),
    "rope": Pass(_rope),
    "silu": Pass(_elementwise(F.silu)),
    "gelu_tanh": Pass(_elementwise(ACTIVATIONS["gelu_new"])),
    "relu": Pass(_elementwise(F.relu)),
    "scale": Pass(_two(torch.mul)),
    "geglu": Pass(_two(lambda gate, up: F.gelu(gate) * up)),
    "sigmoid": Pass(_elementwise(torch.sigmoid)),
}
"""What is measured, by its name in the profile, the most important first."""


def pass_stations(clock: Clock, pools: dict[str, Pool], sizes: int, larger: int) -> list[list[Station]]:
    """A list of stations for every pass in every format, each with `sizes` sizes. larger: times as many elements as on
    a CPU."""
    return [
        [_station(name, each, dtype, clock, pool, elements) for elements in _order(each, sizes, larger)]
        for name, each in PASSES.items()
        for dtype, pool in pools.items()
    ]


def _order(each: Pass, sizes: int, larger: int) -> Sequence[int]:
    """The ends first, so that a run that is cut short has both."""
    found = list(sizes_of(each.smallest, each.largest * larger, sizes))
    return [found[0], found[-1], *found[1:-1]] if sizes > 1 else found


def _station(name: str, each: Pass, dtype: str, clock: Clock, pool: Pool, elements: int) -> Station:
    def measure() -> Iterator[tuple[Key, float]]:
        made = each.make(pool, elements)
        size = pass_bytes(name.removesuffix(".backward"), made.elements, width_of(dtype))
        key = Key(f"pass.{dtype}.{name}", (size,))
        items = several(made.make, repeats(size / _SPEED, most=12))
        if each.trained:
            ahead, back = _both_ways(made, items, clock, pool)
            yield key, ahead
            yield Key(f"{key.group}.backward", key.sizes), back
        else:
            with torch.no_grad():
                yield key, clock.each(made.run, items)

    return Station(f"{name} {dtype} {elements}", measure)


def _both_ways(made: Made, items: Sequence[Any], clock: Clock, pool: Pool) -> tuple[float, float]:
    """(seconds forward, seconds of the gradients of everything that was read and has one)."""
    with torch.no_grad():
        shape = made.run(items[0]).shape
    gradients = [pool.take(*shape) if shape else None for _ in items]

    def back(result: tuple[Tensor, Any, Tensor | None]) -> Any:
        out, item, gradient = result
        read = item if isinstance(item, tuple) else (item,) if item.requires_grad else ()
        return torch.autograd.grad(out, (*read, *made.weights), gradient)

    return clock.pair(lambda each: (made.run(each[0]), *each), back, list(zip(items, gradients, strict=True)))


def adamw_stations(clock: Clock, pools: dict[str, Pool], counts: Sequence[int]) -> list[list[Station]]:
    """A step of the fused optimizer over matrices with so many parameters together, in every format."""
    return [[_adamw(dtype, clock, pool, count) for count in counts] for dtype, pool in pools.items()]


def _adamw(dtype: str, clock: Clock, pool: Pool, count: int) -> Station:
    def measure() -> Iterator[tuple[Key, float]]:
        width = _width(count)
        each = width * 4 * width
        shapes = [(4 * width, width)] * (count // each) or [(max(count // width, 1), width)]
        weights = [nn.Parameter(pool.take(*shape).clone()) for shape in shapes]
        for weight in weights:
            weight.grad = pool.take(*weight.shape)
        step = torch.optim.AdamW(weights, lr=1e-6, fused=True, capturable=pool.device == "cuda").step
        step()
        size = pass_bytes("adamw", sum(weight.numel() for weight in weights), width_of(dtype))
        runs = repeats(size / _SPEED, least=2, most=5)
        yield Key(f"pass.{dtype}.adamw", (size,)), clock.each(lambda _: step(), range(runs))

    return Station(f"adamw {dtype} {count}", measure)
