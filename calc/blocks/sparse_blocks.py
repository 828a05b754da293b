"""Attention to blocks of a long text (BigBird).

Source: Zaheer et al. 2020 (arXiv:2007.14062), section 2 and appendix D; transformers 5.23,
models/big_bird/modeling_big_bird.py, BigBirdBlockSparseAttention.
"""

from __future__ import annotations

from dataclasses import dataclass

from calc.blocks.attention_keys import Known
from calc.errors import Refused
from calc.sizes import Size, exact_div, is_exactly
from calc.spec import Attention, SparseBlocks
from calc.spec.load import Load
from calc.spec.sparse_blocks import beyond
from calc.trace.footprint import Footprint
from calc.trace.functions import Matmul
from calc.trace.op import Moves
from calc.trace.primitives.product import product
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def attends_to_blocks(spec: Attention, sparse: SparseBlocks, load: Load) -> bool:
    """Whether texts are so long that their tokens see blocks. Errors: Refused where these are no whole ones, hold
    several documents, are multiplied otherwise, or are read by tokens that see none to come, which transformers then
    lets see them, and caches nothing."""
    if not beyond(load.seq, sparse.longest):
        return False
    if why := "blocks would see those to come" if spec.causal else sparse.unknown:
        raise Refused("seq", f"at most {sparse.longest} tokens, since in longer ones {why}", load.seq)
    if load.document is not None:
        raise Refused("document", "none in texts that attend to blocks", load.document)
    if isinstance(load.seq, int) and load.seq % sparse.block:
        raise Refused("adapter", "no vectors ahead of texts, which attend to whole blocks", "a prompt")
    return True


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Of one attention: heads of all texts (rows), the numbers of a head, tokens and blocks of a text, tokens of one
    block, and how many others a block draws."""

    rows: Size
    d_head: Size
    seq: Size
    blocks: Size
    block: int
    drawn: int

    @property
    def middle(self) -> Size:
        """Blocks that see the first and the last one beside those around them."""
        return self.blocks - 4

    def kinds(self) -> dict[str, tuple[Size, Size]]:
        """By name, blocks of queries that see alike, and the keys that each of them sees: the first and the last block
        all of them, those next to them four blocks and what they draw, all others five and that."""
        near = (4 + self.drawn) * self.block
        return {"ends": (2, self.seq), "next": (2, near), "middle": (self.middle, near + self.block)}

    @property
    def weights(self) -> Size:
        """Query-key pairs that are multiplied."""
        return self.rows * self.block * sum(n * keys for n, keys in self.kinds().values())


def sparse_blocks(
    t: Trace, sparse: SparseBlocks, q: Tensor, k: Tensor, v: Tensor, heads: Size, load: Load, known: Known
) -> Tensor:
    """q, k, v [batch * seq, n_heads * d_head] -> the same shape: scores, softmax and values of each kind of blocks.

    FLOPs of scores, and as many of values, with block tokens in each of seq / block = n blocks:
    2 * batch * n_heads * d_head * block * (2 * seq + 2 * (4 + drawn) * block + (n - 4) * (5 + drawn) * block).
    """
    if known.ahead is not None:
        raise Refused("adapter", "no keys and values in front of all others, where texts attend to blocks", "prefix")
    blocks, d_head = exact_div(load.seq, sparse.block), exact_div(q.width, heads)
    if is_exactly(d_head, 1):
        raise Refused("n_heads", "heads of several numbers: PyTorch multiplies those of one otherwise", heads)
    sizes = _Sizes(load.batch * heads, d_head, load.seq, blocks, sparse.block, sparse.drawn)
    t.hold(q, k, v)
    values, weights = [], []
    for name, (count, keys) in sizes.kinds().items():
        weighed, y = _kind(t, name, sizes, q, k, v, count, keys)
        weights.append(weighed)
        values.append(y)
    _laid_out(t, sizes, weights)
    several = not is_exactly(load.batch, 1) and not is_exactly(heads, 1)
    single = is_exactly(sizes.rows, 1)
    y = t.made(q.rows, q.width, *values, split="tensor")

    def keeps(tape: Tape, q: Storage, k: Storage, v: Storage) -> Storage:
        with tape.region("attention", q, k, v):
            return _kept(tape, sizes, q, k, v, load.tokens, several=several, single=single)

    t.op("whole", "elementwise", "scale", tuple(values), (y,), keeps=keeps, operands=(q, k, v))
    return y


def _kind(
    t: Trace, name: str, sizes: _Sizes, q: Tensor, k: Tensor, v: Tensor, count: Size, keys: Size
) -> tuple[Tensor, Tensor]:
    """The weights [rows * count * block, keys] and the values of the blocks of queries that see so many keys each."""
    groups, rows = sizes.rows * count, sizes.rows * count * sizes.block
    flops = 2 * rows * keys * sizes.d_head
    shape = Matmul(sizes.block, keys, sizes.d_head, groups, weighed=False)
    scores = product(t, f"{name}_scores", q, k, rows, keys, shape, flops)
    weights = t.made(rows, keys, scores, split="tensor")
    t.op(f"{name}_softmax", "elementwise", "softmax", (scores,), (weights,))
    shape = Matmul(sizes.block, sizes.d_head, keys, groups, weighed=False)
    return weights, product(t, f"{name}_values", weights, v, rows, sizes.d_head, shape, flops)


def _laid_out(t: Trace, sizes: _Sizes, weights: list[Tensor]) -> None:
    """Zeros for all pairs of tokens, and the weights put where they belong: transformers makes this of every layer,
    asked or not, and nothing reads it, so that a compiler leaves it out."""
    whole = t.made(sizes.rows * sizes.seq, sizes.seq, *weights, split="tensor")
    whole.inside = "compiled"

    def live_bytes(room: Footprint) -> Size:
        return 0 if room.compiled else room.of(whole) + room.of(_named(sizes))

    t.op(
        "laid_out",
        "elementwise",
        "scale",
        tuple(weights),
        (whole,),
        moves=lambda: Moves(sizes.weights, whole.elements + sizes.weights),
        live=False,
        live_bytes=live_bytes,
    )


def _named(sizes: _Sizes) -> Tensor:
    """What names of the program still hold beside the weights and values: scores, those of the middle twice, masks of
    what is drawn, keys and values as they were laid out."""
    drawn = sizes.drawn * sizes.block
    near = 2 * sizes.rows * sizes.block * (4 * sizes.block + drawn)
    middle = sizes.rows * sizes.block * sizes.middle * (5 * sizes.block + drawn)
    masks = sizes.rows * sizes.block * (sizes.blocks - 2) * drawn + near
    copied = 2 * sizes.rows * sizes.d_head
    keys = copied * ((sizes.blocks - 2) * drawn + sizes.middle * 3 * sizes.block + 2 * (4 * sizes.block + drawn))
    return Tensor(sizes.weights + middle + masks + keys, 1, split="tensor")


def _kept(
    tape: Tape, sizes: _Sizes, q: Storage, k: Storage, v: Storage, tokens: Size, *, several: bool, single: bool
) -> Storage:
    """Copies of what is read from among others, one for each product that reads it, and the numbers of what is drawn.

    several: whether matrices of several texts and heads are laid together first. single: whether there is one matrix.
    """
    block, drawn = sizes.block, sizes.drawn * sizes.block
    near, middle = 4 * block + drawn, sizes.middle * block

    def read(x: Storage, vectors: Size, *, apart: bool = several) -> Storage:
        elements = sizes.rows * vectors * sizes.d_head
        return Storage(elements, x.dtype, x.grad, "tensor") if apart else x.part(elements)

    places = Storage(sizes.rows * (sizes.blocks - 2) * sizes.drawn, "int64", False, "tensor")
    for x in (k, v):
        if x.grad:
            tape.keep(x, "what blocks are drawn from")
            tape.keep(places, "places")
    y = q
    for keys, apart in ((sizes.seq, several), (near, True)):
        for _ in range(2):
            factors = read(q, block), read(k, keys, apart=apart), read(v, keys, apart=apart)
            y = _weighed(tape, sizes, block, [(keys, *factors)])
    of_ends = [(block, read(q, middle), read(k, block), read(v, block)) for _ in range(2)]
    of_text = read(q, middle, apart=not single), read(k, 3 * middle, apart=True), read(v, 3 * middle, apart=True)
    gathered = [read(x, sizes.middle * drawn, apart=True) for x in (k, v)]
    if single:
        gathered = [read(x, (sizes.blocks - 2) * drawn, apart=True).part(x.elements) for x in (k, v)]
    of_drawn = read(q, middle, apart=not single), gathered[0], gathered[1]
    y = _weighed(tape, sizes, middle, [*of_ends, (3 * block, *of_text), (drawn, *of_drawn)])
    if y.grad and tape.stream == "fp32":
        tape.keep_common("tokens that are there", "factor", tokens, "fp32")
    elif y.grad:
        tape.keep(Storage(tokens, tape.stream, False, "none"), "factor")
    wide = "fp32" if tape.stream == "fp32" else y.dtype
    return Storage(tokens * exact_div(q.elements, tokens), wide, y.grad, "tensor")


def _weighed(
    tape: Tape, sizes: _Sizes, queries: Size, products: list[tuple[Size, Storage, Storage, Storage]]
) -> Storage:
    """Of so many queries of each head. products: of each that makes a share of the scores, and of that which reads this
    share, how many keys each query has in it, and queries, keys and values."""
    n = sizes.rows * queries
    with tape.at("scores"):
        made = [tape.product(q, k, n * keys) for keys, q, k, _ in products]
    with tape.at("softmax"):
        whole = Storage(sum(each.elements for each in made), made[0].dtype, any(x.grad for x in made), "tensor")
        weights = tape.reads_result(whole, "fp32" if tape.settings.autocast_on_gpu else None)
    with tape.at("values"):
        values = [tape.product(weights.part(n * keys), v, n * sizes.d_head) for keys, _, _, v in products]
    return tape.like(*values)
