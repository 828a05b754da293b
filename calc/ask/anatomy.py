"""What a model looks like: its stacks and layers in the order in which they run, block by block, with shapes and sizes.

Read from the tree of ops and the tensors between them, as everything else is; charts draw it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from calc.ask.parts import PartRow, part_rows
from calc.blocks.build import weighed
from calc.sizes import Size, quotient
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.trace.functions import Attend, Matmul
from calc.trace.op import Op
from calc.trace.part import Part

ADD = "add"
"""The function of an op in which a branch comes back to the residual stream."""


@dataclass(frozen=True, slots=True)
class Block:
    """One block, or the sum in which a branch ends.

    path: of `calc.ask.parts`. adds: whether it is such a sum. branch: whether it is on a branch, and not on the
    residual stream itself; leaves: whether it reads the stream; follows: whether it reads what the block ahead of it
    makes. component: what most of it is. shape: in a few words; shapes: of every matrix in it. parameters, active,
    flops: of one of it, active those that a token visits.
    """

    path: str
    name: str
    adds: bool
    branch: bool
    leaves: bool
    follows: bool
    component: str
    shape: str
    shapes: str
    parameters: Size
    active: Size
    flops: Size


@dataclass(frozen=True, slots=True)
class Frame:
    """Blocks that stand together: those of one kind of layer, or those ahead of the layers and behind them.

    stack: `encoder`, `vision`, `audio`, or nothing for the main one. path, count: of a kind of layer, and how many
    there are; nothing and 1 for others. numbers: of those layers in their stack, from 0.
    """

    stack: str
    path: str
    count: int
    numbers: tuple[int, ...]
    blocks: tuple[Block, ...]


def anatomy(spec: ModelSpec, query: Run) -> list[Frame]:
    """The frames of a model, in the order in which they first run. query: the run whose FLOPs are told.

    Errors: as `part_rows`.
    """
    rows = {row.path: row for row in part_rows(spec, query)}
    return list(_frames(weighed(spec, mtp=query.mtp), "", rows))


def _frames(whole: Part, above: str, rows: dict[str, PartRow]) -> Iterator[Frame]:
    loose: list[Part | Op] = []
    seen: set[str] = set()
    for child in whole.body:
        if not isinstance(child, Part) or not (child.layer or child.tower):
            loose.append(child)
            continue
        if loose:
            yield Frame(above, "", 1, (), tuple(_blocks(loose, above, rows)))
            loose = []
        path = f"{above}.{child.name}" if above else child.name
        if child.tower:
            yield from _frames(child, path, rows)
        elif path not in seen:
            seen.add(path)
            count = int(rows[path].calls)
            numbers = child.indices or tuple(range(count))
            yield Frame(above, path, count, tuple(numbers), tuple(_blocks(child.body, path, rows, child, count)))
    if loose:
        yield Frame(above, "", 1, (), tuple(_blocks(loose, above, rows)))


def _blocks(
    body: Sequence[Part | Op], above: str, rows: dict[str, PartRow], layer: Part | None = None, count: int = 1
) -> Iterator[Block]:
    """The blocks of a layer, or of what stands beside the layers. Ops of no parameters and no FLOPs are left out, but
    for the sums that end a branch; what runs a second time has its sizes the first time."""
    stream = _stream(body, layer) if layer is not None else set[int]()
    seen: set[str] = set()
    made: set[int] = set()
    for each in body:
        path = f"{above}.{each.name}" if above else each.name
        row = rows.get(path)
        adds = isinstance(each, Op) and each.function == ADD and layer is not None
        if row is None or not (adds or row.total or row.total_flops):
            continue
        terms = row.parameters or row.flops or {"other": 0}
        once = int(path not in seen)
        seen.add(path)
        yield Block(
            path=path,
            name=each.name,
            adds=adds,
            branch=layer is not None and not any(id(out.storage) in stream for out in each.outputs),
            leaves=layer is not None and any(id(read.storage) in stream for read in each.inputs),
            follows=any(id(read.storage) in made for read in each.inputs),
            component=max(terms, key=lambda name: terms[name]),
            shape=_short(each),
            shapes=", ".join(dict.fromkeys(_matrices(each))),
            parameters=once * quotient(row.total, count),
            active=once * quotient(row.total_active, count),
            flops=once * quotient(row.total_flops, count),
        )
        made = {id(out.storage) for out in each.outputs}


def _stream(body: Sequence[Part | Op], layer: Part) -> set[int]:
    """The tensors of the residual stream: what comes into the layer and leaves it, what sums make, and what a sum adds
    to a branch that began there."""
    sums = [each for each in body if isinstance(each, Op) and each.function == ADD]
    read = {id(x.storage) for each in body if each not in sums for x in each.inputs}
    found = {id(x.storage) for x in (*layer.inputs, *layer.outputs)}
    found |= {id(x.storage) for each in sums for x in each.outputs}
    return found | {id(x.storage) for each in sums for x in each.inputs if id(x.storage) in read}


def _ops(each: Part | Op) -> Iterator[Op]:
    if isinstance(each, Op):
        yield each
        return
    for child in each.body:
        yield from _ops(child)


def _short(each: Part | Op) -> str:
    """A block's shape in a few words."""
    experts = [part for part in _parts(each) if part.expert]
    if experts:
        visited = experts[0].copies if experts[0].active is None else experts[0].active
        return f"{experts[0].copies:,} experts, {visited:,} a token"
    heads = next((op.shape for op in _ops(each) if isinstance(op.shape, Attend)), None)
    if heads is not None:
        keys = f", {heads.groups:,} of keys" if heads.heads != 1 and not heads.latent else ""
        window = f", window {heads.window:,}" if heads.window is not None else ""
        return f"{heads.groups * heads.heads:,} heads of {heads.d_head:,}{keys}{window}"
    widths = [
        width for op in _ops(each) if isinstance(op.shape, Matmul) and op.weights for width in (op.shape.k, op.shape.n)
    ]
    if widths:
        first = [widths[0], *widths[1::2]]
        return " → ".join(f"{n:,}" for n in [first[0], *(b for a, b in pairwise(first) if a != b)])
    return next(_matrices(each), "")


def _parts(each: Part | Op) -> Iterator[Part]:
    if isinstance(each, Part):
        yield each
        for child in each.body:
            yield from _parts(child)


def _matrices(each: Part | Op) -> Iterator[str]:
    for op in _ops(each):
        for weight in op.weights:
            if len(weight.shape) > 1 or isinstance(each, Op):
                shape = " × ".join(f"{n:,}" for n in weight.shape)
                yield shape if op is each else f"{op.name} {shape}"
