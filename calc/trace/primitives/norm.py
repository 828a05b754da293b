"""LayerNorm and RMSNorm over vectors."""

from __future__ import annotations

from dataclasses import replace

from calc.errors import Refused
from calc.sizes import Size, at_least, exact_div, is_exactly
from calc.spec import Norm
from calc.trace.footprint import Footprint
from calc.trace.op import Weight
from calc.trace.primitives.arithmetic import weighed_by
from calc.trace.primitives.batch_norm import saved_by_batch_norm
from calc.trace.recorder import Recorder
from calc.trace.shard import COLUMN, Shard, key_value
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def norm(
    t: Recorder,
    name: str,
    spec: Norm,
    x: Tensor,
    *,
    each: Size = 1,
    heads: Size | None = None,
    vectors: Size | None = None,
    shard: Shard | None = None,
    across: bool = False,
    key: str | None = None,
    sequences: Size = 1,
    apart: bool = False,
) -> Tensor:
    """x [rows, width] -> the same, with a weight [width] (and LayerNorm's bias) where the spec has one. No matrix work.

    each: of a row, how many vectors are normed each for itself, with one weight [width / each] for all; heads: the same
    with a weight of its own for each, [heads, width / heads]. vectors: how many x is laid out as where those are not
    its rows (each channel's steps); the weight is still one for each column. shard: how ranks divide weights of heads.
    across: whether ranks that divide x have a part of every vector, and of the weight: they add up what they have.
    key: of its weights, where it is not the name. sequences: of how many x is; what a norm over the batch gives lies
    value by value in each of several, and each product that reads it lays out a copy of its own. apart: whether each of
    `heads` is a kernel of its own, which multiplies with its weight.
    """
    n = each if heads is None else heads
    one = is_exactly(n, 1)
    if spec.kind == "batchnorm" and (not one or heads is not None or vectors is not None):
        raise Refused("norm.kind", "layernorm or rmsnorm, unless whole vectors are normed", "batchnorm")
    width = x.width if one else exact_div(x.width, n)
    shape = (width,) if heads is None else (heads, width)
    across = across and x.split in ("tensor", "kv")
    weights = _weights(t, key or name, spec, shape, as_divided(x) if across else shard)
    y = t.made(x.rows, x.width, x, weights=weights, split=x.split)
    y.heads = x.heads
    if vectors is None:
        vectors = x.rows if one else x.rows * n

    def keeps(tape: Tape, read: Storage) -> Storage:
        read = tape.cast(read, tape.settings.stream) if x.wide else read
        trained = bool(weights) and weights[0].trainable
        made = saved_by_norm(tape, spec, read, vectors, None if apart else heads, trained, across)
        return replace(made, apart=at_least(sequences, 2)) if spec.kind == "batchnorm" else made

    t.op(
        name,
        "norm",
        spec.kind,
        (x,),
        (y,),
        weights=weights,
        of="norm",
        groups=1 if across else None,
        keeps=keeps,
        live_bytes=lambda footprint: taken_by_norm(footprint, spec, y),
    )
    return y


def _weights(t: Recorder, key: str, spec: Norm, shape: tuple[Size, ...], shard: Shard | None) -> tuple[Weight, ...]:
    """A norm's weight and bias, as far as it has them."""
    names = ("weight", "bias")[: int(spec.affine) + int(spec.affine and spec.bias)]
    return tuple(t.weight(f"{key}.{name}", *shape, of="norm", shard=shard) for name in names)


def as_divided(x: Tensor) -> Shard | None:
    """How ranks divide a weight for each column of x: as x."""
    return {"tensor": COLUMN, "kv": key_value(x.heads)}.get(x.split)


def taken_by_norm(footprint: Footprint, spec: Norm, y: Tensor) -> Size:
    """RMSNorm written out is in fp32, of which there are two: what it reads and what it has scaled."""
    if footprint.compiled or spec.kind != "rmsnorm":
        return footprint.of(y)
    return 2 * footprint.in_fp32(y)


def normalized(t: Recorder, name: str, *tensors: Tensor, each: Size = 1) -> list[Tensor]:
    """Each row of each of `tensors`, or each of so many vectors in a row, divided by its length: one kernel.

    Each is kept, with its lengths as they are and as they divide, which no zero does.
    """
    made = [t.made(x.rows, x.width, x, split=x.split) for x in tensors]

    def divided(tape: Tape, read: Storage, rows: Size) -> Storage:
        lengths = tape.reads_result(Storage(rows, read.dtype, tape.reads_input(read).grad))
        return tape.times(read, tape.like(lengths))

    def keeps(tape: Tape, *reads: Storage) -> list[Storage]:
        return [divided(tape, read, x.rows * each) for x, read in zip(tensors, reads, strict=True)]

    t.op(name, "elementwise", "l2norm", tensors, tuple(made), of="other", keeps=keeps)
    return made


def saved_by_norm(
    tape: Tape,
    spec: Norm,
    x: Storage,
    vectors: Size,
    heads: Size | None = None,
    trained: bool = True,
    across: bool = False,
) -> Storage:
    """What a norm of `vectors` vectors, whose elements are x's, keeps. heads: how many have a weight of their own.
    across: as for `norm`.

    LayerNorm is one kernel: it keeps its input, and mean and deviation of every vector; a weight of several vectors is
    multiplied behind it, and keeps what it multiplies; one plus the weight is a tensor of its own, kept too. RMSNorm is
    written out in fp32 (transformers' LlamaRMSNorm): it keeps its input in fp32, every vector's factor, and what the
    weight multiplies, in the stream's format; in fp32 where that comes before the result is narrowed (OLMo 2), or where
    one plus the weight multiplies (Gemma), which is kept too; and its input as it is, where that is what is multiplied
    (T5). Where a power makes the factor (Gemma 3n's ears), its base, and the copy of a narrower weight. Fused, it keeps
    its input and the factors.
    """
    s = tape.settings
    if spec.kind == "batchnorm":
        return saved_by_batch_norm(tape, x, exact_div(x.elements, vectors), trained=trained)
    with tape.region("norm", x):
        if s.fused or spec.kind == "layernorm":
            several = spec.affine and heads is not None
            y = _kernel(tape, spec, x, vectors, affine=spec.affine and not several, trained=trained, across=across)
            return _weighed(tape, y, trained) if several else y
        wide = tape.cast(x, "fp32")
        mean = _of_each(x, vectors, "fp32", across, grad=tape.reads_input(wide).grad)
        factor = tape.reads_result(tape.reads_input(mean) if spec.by_power else mean)
        y = tape.times(wide if spec.widened else x, factor)
        if not spec.affine:
            return tape.cast(y, x.dtype)
        if not (spec.unit_offset or spec.wide):
            return _weighed(tape, tape.cast(y, s.stream if spec.as_weight else x.dtype), trained)
        if spec.unit_offset and y.grad:
            # One plus the weight is a tensor of its own.
            width = exact_div(x.elements, vectors)
            numbers = width if heads is None else width * heads
            divided = x.split in ("tensor", "kv") and (across or heads is not None)
            split = x.split if divided else "none"
            tape.keep(Storage(numbers, "fp32", False, split, heads=x.heads), "weight plus one")
        if spec.by_power and y.grad and s.stream != "fp32":
            tape.keep(Storage(exact_div(x.elements, vectors), "fp32", False, "none"), "weight")
        return tape.cast(weighed_by(tape, y, trained), x.dtype)


def _weighed(tape: Tape, x: Storage, trained: bool) -> Storage:
    """x times the weight, in the wider of their formats."""
    y = weighed_by(tape, x, trained)
    return tape.like(y, dtype="fp32") if tape.settings.autocast and y.dtype != "fp32" else y


def _of_each(x: Storage, vectors: Size, dtype: str, across: bool, *, grad: bool = False) -> Storage:
    """A number for each vector, which ranks that have a part of every one all hold."""
    return Storage(vectors, dtype, grad, "none" if across else x.split, heads=x.heads)


def _kernel(tape: Tape, spec: Norm, x: Storage, vectors: Size, *, affine: bool, trained: bool, across: bool) -> Storage:
    s = tape.settings
    y = tape.cast(x, "fp32") if s.autocast_on_gpu else x
    trains = affine and trained
    if y.grad or trains:
        tape.keep(y, "input")
        # A GPU's kernel keeps these in fp32 whatever it reads, and the CPU's in the format of the weights.
        own = "fp32" if s.device == "cuda" or (s.autocast and affine) else y.dtype
        for role in ("deviation", "mean")[: 2 if spec.kind == "layernorm" else 1]:
            tape.keep(_of_each(x, vectors, own, across), role)
        if spec.unit_offset and affine and not s.fused:
            dtype = "fp32" if s.autocast else y.dtype
            split = x.split if across else "none"
            tape.keep(Storage(exact_div(x.elements, vectors), dtype, False, split, heads=x.heads), "weight plus one")
    return Storage(y.elements, y.dtype, y.grad or trains, y.split, heads=y.heads)


def grouped_norm(t: Recorder, name: str, spec: Norm, x: Tensor, groups: Size, *, wide: bool = False) -> Tensor:
    """x [rows, width] in fp32, each of `groups` shares of a row an RMSNorm of its own, with one weight [width] for all
    -> the same in the format of products. wide: whether it stays in fp32.

    Ranks divide the weight as they do x; more ranks than groups add up their squares. Fused, it keeps x in the format
    of products, which it gives as well, and a factor of each share."""
    weights = (t.weight(f"{name}.weight", x.width, of="norm", shard=COLUMN),) if spec.affine else ()
    y = t.made(x.rows, x.width, x, weights=weights, split=x.split)

    def keeps(tape: Tape, read: Storage) -> Storage:
        with tape.region("norm", read):
            grad = tape.reads_input(read).grad
            factor = tape.reads_result(Storage(x.rows * groups, "fp32", grad, "kv", heads=groups))
            if tape.settings.fused:
                trained = bool(weights) and weights[0].trainable
                return tape.cast(weighed_by(tape, read, trained), tape.settings.dtype)
            made = tape.times(read, factor)
            if weights and made.grad:
                tape.keep(Storage(x.width, "fp32", False, read.split), "weight")
            made = weighed_by(tape, made, weights[0].trainable) if weights else made
            return made if wide else tape.cast(made, tape.settings.dtype)

    t.op(name, "norm", spec.kind, (x,), (y,), weights=weights, of="norm", keeps=keeps, groups=groups)
    return y
