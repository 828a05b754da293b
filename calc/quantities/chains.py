"""Which ops run as one kernel, what a kernel moves forward and back, and what checkpointing runs once more.

What is one kernel, and what is counted of it, stands in `calc.quantities.traffic`.
"""

from __future__ import annotations

from collections.abc import Iterable

from calc.quantities.flops import recomputed
from calc.quantities.modules import recomputed_pieces
from calc.sizes import Size, either, is_array, is_exactly
from calc.spec.run import Kernels, Run
from calc.trace.functions import TRAITS
from calc.trace.op import Op
from calc.trace.part import Leaf
from calc.trace.tensor import Tensor

Chain = tuple[Leaf, ...]
"""Ops that run as one kernel."""


def chains(some: Iterable[Leaf], kernels: Kernels) -> list[Chain]:
    """The ops of one pass in the order they run, those together that run as one kernel."""
    some = [leaf for leaf in some if has_work(leaf.op) and not (kernels == "compiled" and left_out(leaf.op))]
    core = {} if kernels == "eager" else _core(some)
    made: list[list[Leaf]] = []
    for i, leaf in enumerate(some):
        if i in core:
            joins = core[i] < i
        else:
            joins = kernels == "compiled" and i > 0 and i - 1 not in core and _fuses(some[i - 1], leaf)
        if joins:
            made[-1].append(leaf)
        else:
            made.append([leaf])
    return [tuple(each) for each in made]


def moved(chain: Chain, wide: Size = 1) -> tuple[Size, Size]:
    """Elements of activations that a kernel reads and writes in one call: what is made in it and read in it stays on
    the chip, and what only it reads is never written.

    wide: as how many one counts of a stream that is in fp32 whatever other activations are in (ZAYA1)."""
    reads: Size = 0
    writes: Size = 0
    for i, leaf in enumerate(chain):
        each, more_read, more_written = leaf.op.moved(), *_more(leaf.op, wide)
        reads = reads + where_run(leaf.op, each.reads + more_read - on_chip(chain, i, wide))
        writes = writes + each.writes + more_written - never_written(chain, i, wide)
    return reads, writes


def _more(op: Op, wide: Size) -> tuple[Size, Size]:
    """What of such a stream an op reads, and writes, counts beside as many elements as it has."""
    if is_exactly(wide, 1) or not any(in_fp32(x) for x in (*op.inputs, *op.outputs)):
        return 0, 0
    read, written = (sum((x.elements for x in some if in_fp32(x)), start=0) for some in (op.inputs, op.outputs))
    return (wide - 1) * read, (wide - 1) * written


def in_fp32(x: Tensor) -> bool:
    """Whether it is of such a stream."""
    return x.wide and x.inside is None and x.split == "stream"


def _weighed(x: Tensor, wide: Size) -> Size:
    return wide * x.elements if in_fp32(x) else x.elements


def on_chip(chain: Chain, i: int, wide: Size = 1) -> Size:
    """Of what the i-th op of a kernel reads, the elements that ops ahead of it have made or have read already."""
    if i == 0:
        return 0
    there = {id(x.storage) for leaf in chain[:i] for x in leaf.op.outputs}
    made = sum((_weighed(x, wide) for x in chain[i].op.inputs if id(x.storage) in there), start=0)
    return made + chain[i].op.moved().again


def never_written(chain: Chain, i: int, wide: Size = 1) -> Size:
    """Of what the i-th op of a kernel writes, the elements that only ops behind it in the kernel read."""
    behind = [id(x.storage) for leaf in chain[i + 1 :] for x in leaf.op.inputs]
    made = chain[i].op.outputs
    return sum((_weighed(x, wide) for x in made if x.readers and behind.count(id(x.storage)) == x.readers), start=0)


def has_work(op: Op) -> bool:
    """False for what has nothing to do in this pass: an encoder while its reader decodes."""
    writes = op.writes
    if is_array(writes):
        return bool((writes != 0).any())
    return writes != 0


def left_out(op: Op) -> bool:
    """Whether nothing reads what an op makes, and a compiler, which sees that, does not run it."""
    return bool(op.outputs) and all(x.inside == "compiled" and not x.readers for x in op.outputs)


def where_run(op: Op, amount: Size) -> Size:
    """An amount in those rows of arrays in which an op has something to do, 0 in the others."""
    writes = op.writes
    return either(writes != 0, amount) if is_array(writes) and not (writes != 0).all() else amount


def _core(some: list[Leaf]) -> dict[int, int]:
    """Places of the ops of attention's cores that one kernel can run -> the place of the core's first."""
    found: dict[int, int] = {}
    start: int | None = None
    for i, leaf in enumerate(some):
        if leaf.op.function == "scores":
            start = i
        elif leaf.op.function == "values" and start is not None:
            found |= dict.fromkeys(range(start, i + 1), start)
            start = None
        elif not TRAITS[leaf.op.function].in_core:
            start = None
    return found


def _fuses(last: Leaf, leaf: Leaf) -> bool:
    """Whether two neighbours without products stand in one block."""
    plain = (
        each.op.kind not in ("linear", "attention") and not TRAITS[each.op.function].alone for each in (last, leaf)
    )
    return leaf.parents[-1] is last.parents[-1] and all(plain)


def rerun(everything: list[Leaf], query: Run) -> list[Leaf]:
    """What checkpointing, or computing a piece of a layer again, runs once more: its products, and what lies between
    them. Errors: Refused for pieces of which that is not known (`calc.quantities.modules`)."""
    if query.checkpointing == "none" and not query.recompute:
        return []
    core = _core(everything)
    inside = {id(leaf) for i, leaf in enumerate(everything) if i in core}
    if query.checkpointing in ("none", "selective"):
        names = query.again
        some = {id(leaf) for leaf in recomputed_pieces(everything, names - {"attention"})}
        if "attention" in names:
            if query.kernels != "compiled":  # Else a scan's kernel keeps what it reads and no states, whatever is said.
                inside |= {id(leaf) for leaf in recomputed(everything, "selective")}
            some |= {id(leaf) for leaf in everything if id(leaf) in inside and leaf.op.live and leaf.layer}
        return [leaf for leaf in everything if id(leaf) in some]
    again = recomputed(everything, query.checkpointing)
    if query.checkpointing != "selective-op":
        return again
    products = set(map(id, again))
    layers = {leaf.layer for leaf in again}

    def runs(leaf: Leaf) -> bool:
        plain = leaf.op.kind not in ("linear", "attention") and id(leaf) not in inside
        return id(leaf) in products or (plain and leaf.layer is not None and leaf.layer in layers)

    return [leaf for leaf in everything if runs(leaf)]


def elements_back(chain: Chain, wide: Size = 1) -> Size:
    """Elements of activations and of their gradients that a kernel going back reads and writes, in one call. wide: as
    for `moved`."""
    op = chain[0].op
    reads, writes = moved(chain, wide)
    if len(chain) > 1 and op.function == "scores":
        return 2 * reads + 2 * writes
    if op.kind == "linear":
        return int(op.input_grad) * (writes + reads) + int(_trains(op)) * (writes + reads)
    if op.kind == "attention" and not TRAITS[op.function].alone:
        return 2 * (reads + writes)
    total: Size = 0
    for i, leaf in enumerate(chain):
        op, last = leaf.op, i == len(chain) - 1
        reads, writes = moved((leaf,), wide)
        if op.function == "add":
            # Two branches are joined where they meet again; where they part, their gradients are added up.
            total = total + ((3 if last else 2) * writes if leaf.layer is not None else 0)
            continue
        saved = reads if TRAITS[op.function].needs_operands else 0
        total = total + saved + writes - never_written(chain, i, wide) + reads - on_chip(chain, i, wide)
    return total


def _trains(op: Op) -> bool:
    return not is_exactly(op.weight_gradients, 0)
