"""What PyTorch runs for attention that is no single kernel: products of each head, and passes over every score.

Launches and bytes are those that were counted while the backends of `harness.kernels` ran (tests/harness/kernels/
test_launches.py counts them again). Passes over less than a row of scores count as launches alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from calc.attention.shape import AttentionShape
from calc.attention.tiles import Blocks, visits
from calc.time.kernels.kernel import Direction, Kernel, Use, width_of
from calc.time.kernels.single_kernel import matmul
from calc.trace.functions import Attend

TILE = Blocks(64, 64)
"""Tiles of the backend `tiled` where it is not told any."""
MASK_BYTES, WINDOW_BYTES = 27, 12
"""Bytes for each query and key that making a mask of booleans moves: distances in int64, comparisons, unions."""
MASK_LAUNCHES, WINDOW_LAUNCHES = 12, 2
TRIANGLE_BYTES = 8
"""The same of the lower triangle that PyTorch makes itself."""


@dataclass(frozen=True)
class _Laying:
    """Lays down the kernels of one direction. exps: whether softmax is a pass of its own by the device's profile (on a
    CPU, where exponentials take longer than bytes), or as long as its bytes."""

    shape: AttentionShape
    dtype: str
    direction: Direction
    exps: bool

    @property
    def width(self) -> float:
        return width_of(self.dtype)

    @property
    def groups(self) -> int:
        """Products of one step: one for each sequence and key head."""
        return self.shape.batch * self.shape.kv_heads

    @property
    def square(self) -> float:
        """Bytes of all scores."""
        return self.width * self.shape.batch * self.shape.heads * self.shape.seq * self.shape.keys

    def product(self, function: str, rows: float, keys: float, use: Use = "batched", groups: int = 0) -> Kernel:
        """`groups` products of rows x keys: `scores` over the width of keys, `values` of them with the values."""
        shape, groups = self.shape, groups or self.groups
        width = shape.d_head if function == "scores" else shape.d_value
        return Kernel(
            path=function,
            component="attention",
            function=function,
            direction=self.direction,
            dtype=self.dtype,
            flops=2.0 * groups * rows * keys * width,
            bytes=self.width * groups * (rows * keys + (rows + keys) * width),
            shape=Attend(groups, 1, rows, keys, shape.d_head, shape.d_value, causal=False),
            use=use,
        )

    def moving(self, nbytes: float, launches: float = 1.0, name: str = "copy") -> Kernel:
        """`launches` passes that together read and write so many bytes."""
        each = nbytes / launches
        return Kernel(
            path=name,
            component="attention",
            function=name,
            direction=self.direction,
            dtype=self.dtype,
            calls=launches,
            bytes=each,
            profiled_bytes=each,
        )

    def softmax(self) -> Kernel:
        """Scores read and probabilities written; back, probabilities and their gradient read."""
        if self.exps:
            squares = 2 if self.direction == "forward" else 3
            return self.moving(squares * self.square, 1, "softmax")._replace(profiled_bytes=2 * self.square)
        return self.moving((2 if self.direction == "forward" else 3) * self.square)

    def mask(self) -> Iterator[Kernel]:
        """The mask of booleans, one for all heads."""
        window = self.shape.window is not None
        pairs = self.shape.seq * self.shape.keys
        bytes_of_pair = MASK_BYTES + WINDOW_BYTES * window
        yield self.moving(pairs * bytes_of_pair, MASK_LAUNCHES + WINDOW_LAUNCHES * window)


def reference(shape: AttentionShape, direction: Direction, exps: bool) -> Iterator[Kernel]:
    """`reference`: the rows of a group in one product; hidden scores are overwritten in a copy, and so are the weights
    of rows that see nothing."""
    lay = _Laying(shape, shape.dtype, direction, exps)
    rows, hidden = shape.group * shape.seq, 2 if shape.hides else 0
    if direction == "forward":
        yield lay.product("scores", rows, shape.keys)
        yield lay.moving(2 * lay.square)
        if shape.hides:
            yield from lay.mask()
            yield lay.moving(hidden * 2 * lay.square, hidden)
        yield lay.softmax()
        yield lay.product("values", rows, shape.keys)
        return
    yield from _products_back(lay, rows, shape.keys)
    yield lay.softmax()
    yield lay.moving((1 + hidden) * 2 * lay.square, 1 + hidden)


def sdpa_math(shape: AttentionShape, direction: Direction, exps: bool) -> Iterator[Kernel]:
    """`sdpa_math`: half formats upcast to fp32, queries and keys scaled ahead, keys and values repeated for every head,
    the mask added to the scores (aten/src/ATen/native/transformers/attention.cpp, PyTorch 2.13)."""
    narrow = width_of(shape.dtype) < 4
    every = replace(shape, kv_heads=shape.heads)
    lay = _Laying(every, "fp32" if narrow else shape.dtype, direction, exps)
    queries = lay.width * shape.batch * shape.heads * shape.seq
    keys = lay.width * shape.batch * shape.heads * shape.keys
    scaled = 2 * (queries + keys) * shape.d_head
    tensors = queries * (shape.d_head + shape.d_value) + keys * (shape.d_head + shape.d_value)
    if narrow:
        # Read in 16 bits, written in 32 or back.
        yield lay.moving(1.5 * tensors, 4)
    if direction == "forward":
        if shape.group != 1:
            yield lay.moving(2 * keys * (shape.d_head + shape.d_value), 2)
        yield lay.moving(scaled, 2)
        yield lay.product("scores", shape.seq, shape.keys)
        if shape.hides and shape.seq != 1:
            square = shape.offset == 0 and shape.window is None
            yield from [lay.moving(TRIANGLE_BYTES * shape.seq * shape.keys, 5)] if square else lay.mask()
            yield lay.moving(2 * lay.square)
        yield lay.softmax()
        yield lay.product("values", shape.seq, shape.keys)
        if narrow:
            # The probabilities are handed out too, in the inputs' format.
            yield lay.moving(1.5 * lay.square)
        return
    yield from _products_back(lay, shape.seq, shape.keys)
    yield lay.softmax()
    yield lay.moving(scaled, 2)
    if shape.group != 1:
        yield lay.moving(keys * (shape.d_head + shape.d_value), 2)


def _products_back(lay: _Laying, rows: float, keys: float) -> Iterator[Kernel]:
    """Gradients of weights, as scores are; of values; of queries and keys."""
    yield lay.product("values", rows, keys, "dgrad")
    yield lay.product("values", rows, keys, "wgrad")
    yield lay.product("scores", rows, keys, "wgrad")
    yield lay.product("scores", rows, keys, "wgrad")


def tiled(shape: AttentionShape, direction: Direction, exps: bool) -> Iterator[Kernel]:
    """`tiled`: for each tile of 64 x 64, of all sequences and key heads at once, products and small passes in fp32."""
    # Going back, too, Python asks for each, not autograd.
    back = direction == "backward"
    lay = _Laying(shape, "fp32", "recomputed" if back else "forward", exps)
    seen = visits(shape, TILE)
    if not seen.tiles:
        return
    tiles = seen.tiles / lay.groups
    rows, columns = seen.row_visits / seen.tiles, seen.column_visits / seen.tiles
    masked = int(shape.causal) + int(shape.window is not None)
    d, both = shape.d_head, shape.d_head + shape.d_value
    products, launches, squares, wide = (5, 13, 13, 8 * both) if back else (2, 17, 8, 3.5 * both)
    moved = 4.0 * lay.groups * (rows * columns * (squares + 2 * masked) + (rows + columns) * wide / 2)
    if width_of(shape.dtype) < 4:
        launches += 8 if back else 4
        moved += 6.0 * lay.groups * (rows * d + columns * both) * (2 if back else 1)
    for i in range(products):
        width = d if i in (0, 3, 4) else shape.d_value
        product = matmul(rows, columns, width, "fp32", lay.groups, "batched")  # pyright: ignore[reportArgumentType]
        yield product._replace(direction=lay.direction, calls=tiles)
    yield lay.moving(tiles * moved, tiles * (launches + 2 * masked))
    down = -(-shape.group * shape.seq // TILE.rows)
    yield lay.moving(4.0 * lay.groups * shape.group * shape.seq * both * 3, 14.0 * down)


def mla_naive(shape: AttentionShape, direction: Direction, exps: bool) -> Iterator[Kernel]:
    """`mla_naive`, forward: all tokens' keys and values in one product, laid out anew, then as usual."""
    lay = _Laying(shape, shape.dtype, direction, exps)
    rank, both = shape.kv_rank, shape.d_head - shape.d_rope + shape.d_value
    tokens = shape.batch * shape.keys
    yield lay.moving(2 * lay.width * (shape.heads * rank * both), 1)
    yield matmul(tokens, shape.heads * both, rank, shape.dtype, 1, "batched")
    # Of one sequence the values of a head already lie together.
    laid = shape.d_head + shape.d_value * (shape.batch != 1)
    yield lay.moving(2 * lay.width * tokens * shape.heads * laid, 1 + (shape.batch != 1))
    yield lay.product("scores", shape.seq, shape.keys)
    yield from _weights(lay)
    yield lay.product("values", shape.seq, shape.keys)


def mla_absorbed(shape: AttentionShape, direction: Direction, exps: bool) -> Iterator[Kernel]:
    """`mla_absorbed`, forward: queries through each head's keys' matrix, all heads against one latent, and outputs
    through each head's values' matrix."""
    lay = _Laying(shape, shape.dtype, direction, exps)
    rank, plain = shape.kv_rank, shape.d_head - shape.d_rope
    rows, new = shape.heads * shape.seq, shape.batch * shape.seq
    latents = replace(shape, d_head=rank + shape.d_rope, d_value=rank, kv_rank=None, d_rope=None)
    core = _Laying(latents, shape.dtype, direction, exps)
    yield matmul(new, rank, plain, shape.dtype, shape.heads, "batched")
    yield lay.moving(2 * lay.width * new * shape.heads * (rank + shape.d_rope))
    yield core.product("scores", rows, shape.keys, groups=shape.batch)
    yield from _weights(lay)
    yield core.product("values", rows, shape.keys, groups=shape.batch)
    yield matmul(new, shape.d_value, rank, shape.dtype, shape.heads, "batched")


def _weights(lay: _Laying) -> Iterator[Kernel]:
    """Scores scaled and masked, and their softmax."""
    yield lay.moving(2 * lay.square)
    if lay.shape.hides:
        yield from lay.mask()
        yield lay.moving(4 * lay.square, 2)
    yield lay.softmax()


WRITTEN_OUT = {
    "reference": reference,
    "sdpa_math": sdpa_math,
    "tiled": tiled,
    "mla_naive": mla_naive,
    "mla_absorbed": mla_absorbed,
}
"""Backend -> (shape, direction, exps) -> the kernels that run in its place."""
