"""Bytes between a device's main memory and its chip: forward, training and decoding, as folds over the tree of ops.

Each op says what it moves as one kernel, in elements (`calc.trace.op`). Which ops are one kernel:

* eager: each op alone. It reads its operands and writes its result, scores and their softmax [heads, seq, keys] too.
  PyTorch runs some ops as several kernels; `calc.trace.eager` says how many, and what they move.
* sdpa: scores, softmax and weighted values are one (FlashAttention: Dao et al. 2022, arXiv:2205.14135).
* compiled: so is every run of neighbouring ops of one block without products (norms, sums, activations, rotary
  positions, lookups), as torch.compile makes them; products with weights, choices of experts and scans stand alone.
  What one op of a kernel makes and only the next one reads does not leave the chip.

Going back (`elements_back`), each operand is read once more and each gradient written once:

* a product reads the gradient of its result twice, its two operands once each, and writes the gradient of each; only
  those that something trained needs (`calc.trace.recorder`);
* attention in one kernel reads queries, keys, values, its result and the result's gradient, and writes three gradients;
* what else has no product reads what it read before and the gradient of its result, and writes those of its operands;
  rotary positions and copies need nothing of forward. A sum passes its gradient on as it is; what counts there is that
  the residual stream forks, whose two gradients are read and their sum written;
* what several products read gets their gradients added up in those products;
* a lookup reads the gradient of its rows and writes that of the whole table, zeros included.

Not counted: numbers of tokens and masks (a few bytes a token), statistics of norms and of attention's softmax, the
loss, and the optimizer, whose states `calc.memory` has. Caches of the chip are taken as holding nothing from one kernel
to the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from calc.blocks.build import build
from calc.dtypes import Quantized, byte_count, weight_dtype
from calc.dtypes import dtype as plain_dtype
from calc.errors import Refused
from calc.quantities.chains import chains, elements_back, has_work, moved, rerun, where_run
from calc.quantities.weights import plain_width, quantizes
from calc.sizes import Size, exact_div, is_exactly, ratio
from calc.spec import ModelSpec
from calc.spec.run import Kernels, Run
from calc.trace.functions import Matmul
from calc.trace.part import Leaf, leaves


@dataclass(frozen=True, slots=True)
class Formats:
    """Number formats of what moves. state: of recurrences.

    width: bytes of one number where weights, activations and cache are in one format, perhaps a symbol; None: as the
    formats have it.
    """

    weights: str = "bf16"
    activations: str = "bf16"
    cache: str = "bf16"
    state: str = "fp32"
    width: Size | None = None

    @property
    def wide(self) -> Size:
        """As how many activations a number in fp32 counts."""
        if self.width is None:
            return ratio(32, plain_dtype(self.activations).bits)
        return exact_div(4, self.width)

    def bytes(self, elements: Size, name: str) -> Size:
        """Bytes of elements in the format called `name`, or of the one width."""
        return byte_count(elements, plain_dtype(name).bits) if self.width is None else elements * self.width


def traffic_widths(query: Run) -> dict[str, int]:
    """Whole bytes of one number by the name of its symbol, where weights, activations and cache are in one format."""
    formats = formats_of(query)
    return plain_width(query) if formats.weights == formats.activations else {}


def formats_of(query: Run) -> Formats:
    """Weights in `query.dtype`; activations and cache too where that is plain and of 16 bits or more, else in bf16."""
    kind = weight_dtype(query.dtype)
    wide = query.dtype if not isinstance(kind, Quantized) and kind.bits >= 16 else "bf16"
    return Formats(query.dtype, wide, wide, query.state_dtype)


def forward_traffic(spec: ModelSpec, query: Run, formats: Formats | None = None) -> dict[str, Size]:
    """Bytes of one forward pass over the batch, without a cache, by what they are of: weights and activations."""
    return _passed(_tree(spec, query), query.kernels, formats or formats_of(query), cached=False)


def training_traffic(spec: ModelSpec, query: Run, formats: Formats | None = None) -> dict[str, Size]:
    """Bytes of forward, recomputation and backward: weights, activations with their gradients, weights' gradients."""
    formats = formats or formats_of(query)
    everything = _tree(spec, query)
    again = rerun(everything, query)
    live = [leaf for leaf in everything if leaf.op.live and has_work(leaf.op)]
    terms = _passed(everything, query.kernels, formats, cached=False)
    back = backward_traffic(live, query.kernels, formats)
    for found in (_passed(again, query.kernels, formats, cached=False), back):
        for name, value in found.items():
            terms[name] = terms.get(name, 0) + value
    return terms


def decode_traffic(spec: ModelSpec, query: Run, formats: Formats | None = None) -> dict[str, Size]:
    """Bytes of one new token for each sequence with `query.context` tokens cached: weights, activations, cache, state.

    Experts: of each layer, as many as the batch's tokens reach by `query.routing`.
    Errors: Refused for a model that does not decode.
    """
    if not spec.decodes:
        raise Refused("phase", "forward or training for a model without a cache", "decode")
    load = query.load(seq=1, context=query.context, decode=True, absorbed=query.absorbs)
    everything = list(leaves(build(spec, load)))
    return _passed(everything, query.kernels, formats or formats_of(query), cached=True)


def _tree(spec: ModelSpec, query: Run) -> list[Leaf]:
    return list(leaves(build(spec, query.load())))


def _passed(some: Iterable[Leaf], kernels: Kernels, formats: Formats, *, cached: bool) -> dict[str, Size]:
    """Bytes of some ops run forward. cached: whether there is a cache."""
    weights: Size = 0
    activations: Size = 0
    cache: Size = 0
    state: Size = 0
    for chain in chains(some, kernels):
        reads, writes = moved(chain, formats.wide)
        activations = activations + chain[0].calls * (reads + writes)
        for leaf in chain:
            weights = weights + leaf.calls * where_run(leaf.op, _weight_bytes(leaf, formats))
            cache = cache + leaf.calls * where_run(leaf.op, leaf.op.cache_reads + leaf.op.cache_writes)
            state = state + leaf.calls * where_run(leaf.op, leaf.op.state_reads + leaf.op.state_writes)
    terms = {"weights": weights, "activations": formats.bytes(activations, formats.activations)}
    if not cached:
        return terms
    moving = {
        "cache": formats.bytes(cache, formats.cache),
        "state": byte_count(state, plain_dtype(formats.state).bits),
    }
    return terms | {name: value for name, value in moving.items() if not is_exactly(value, 0)}


def _weight_bytes(leaf: Leaf, formats: Formats) -> Size:
    """Bytes of its weights that one call of an op reads.

    Errors: Refused for quantized matrices whose op runs apart from where they stand.
    """
    op, kind = leaf.op, weight_dtype(formats.weights)
    if formats.width is not None:
        return op.weights_read * formats.width
    if not isinstance(kind, Quantized):
        return byte_count(op.weights_read, kind.bits)
    rest = plain_dtype(kind.rest).bits
    if op.weight_reads is not None and not op.weights:
        raise Refused("dtype", "a plain format where layers that share weights are passed in different ways", kind.name)
    if not op.weights or not quantizes(op.weights[0], leaf):
        return byte_count(op.weights_read, rest)
    matrix, *others = op.weights
    groups = op.shape.groups if isinstance(op.shape, Matmul) and op.weight_reads is not None else 1
    bias = sum((weight.elements for weight in others), start=0)
    return groups * (kind.matrix_bytes(*matrix.shape) + byte_count(bias, rest))


def backward_traffic(live: list[Leaf], kernels: Kernels, formats: Formats) -> dict[str, Size]:
    """Bytes of going back through ops that it passes: weights, activations with their gradients, weights' gradients."""
    weights: Size = 0
    activations: Size = 0
    gradients: Size = 0
    for chain in chains(live, kernels):
        activations = activations + chain[0].calls * chain[0].op.reached * elements_back(chain, formats.wide)
        for leaf in chain:
            op = leaf.op
            gradients = gradients + leaf.calls * op.reached * where_run(op, op.weight_gradients)
            if op.function != "gather" and (op.kind != "linear" or op.input_grad):
                weights = weights + leaf.calls * op.reached * where_run(op, _weight_bytes(leaf, formats))
    return {
        "weights": weights,
        "activations": formats.bytes(activations, formats.activations),
        "gradients": formats.bytes(gradients, formats.activations),
    }


BY_PHASE = {"forward": forward_traffic, "training": training_traffic, "decode": decode_traffic}
"""Phase -> its bytes by what they are of, for a model and a query."""
