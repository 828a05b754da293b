"""Which products going back takes when most weights are frozen.

A product needs the gradient of an operand only where that operand is trained or depends on something that is. In a
model that is trained whole this is all of them, but for inputs of the model itself. Beside adapters nothing before the
first one takes a gradient: so the first layer that has one differs from those behind it, and is a part of its own; and
so does a layer that borrows keys and values which an earlier one made of nothing trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from calc.errors import Refused
from calc.flow import BLOCK_INPUT, KNOWN, Reads, reads_of
from calc.op import Moves, Op, Part
from calc.sizes import Size
from calc.spec import Attention, LayerGroup, ModelSpec, Stack

Body = tuple[Part | Op, ...]
_Lent = tuple[bool, bool]
"""Whether keys and values that layers borrow depend on anything trained."""
_Way = tuple[bool, _Lent]
"""(whether a layer's input depends on anything trained, whether what it borrows does)."""


def backward(op: Op) -> Size:
    """FLOPs of going back: as many again for the input, and for the weights or the second operand."""
    if op.backward is not None:
        return op.backward
    if op.kind == "attention":
        return 2 * op.flops
    return op.reached * ((int(op.input_grad) + int(_trains(op))) * op.flops)


def marked(tree: Part, spec: ModelSpec) -> Part:
    """`tree` of `spec` with what backward passes marked in each op, by what of its weights is trainable.

    Errors: Refused where the first trained weight stands in a block whose inner flow is not known here.
    """
    body: list[Part | Op] = []
    source = False
    for child in tree.body:
        if isinstance(child, Part) and child.name == "vision":
            body.append(_dead(child))
        elif isinstance(child, Part) and child.name == "encoder" and spec.encoder is not None:
            inner, source = _stack(child.body, spec.encoder, False)
            body.append(replace(child, body=inner))
    beside = len(body)
    main, _ = _stack(tree.body[beside:], spec, source)
    return replace(tree, body=(*body, *main))


def _stack(body: Body, spec: Stack, source: bool) -> tuple[Body, bool]:
    """(ops, whether the result depends on anything trained). source: whether what cross-attention reads does."""
    layers = [child for child in body if isinstance(child, Part) and child.layer]
    made: list[Part | Op] = []
    live = False
    for child in body:
        if isinstance(child, Op):
            live = live or _trains(child)
            made.append(replace(child, live=live))
        elif not child.layer:
            made.append(child if live else _dead(child))
        elif child is layers[0]:
            parts, live = _layers(layers, spec, live, source)
            made += parts
    return tuple(made), live


def _layers(layers: list[Part], spec: Stack, live: bool, source: bool) -> tuple[list[Part], bool]:
    """All kinds of layers, those of one kind apart where going back passes them differently."""
    kinds = {group.name: (group, part) for group, part in zip(spec.layers, layers, strict=True)}
    runs: dict[str, list[_Way]] = {name: [] for name in kinds}
    calls: dict[tuple[str, _Way], int] = {}
    marks: dict[tuple[str, _Way], tuple[Part, bool, _Lent]] = {}
    lent: dict[Size | None, _Lent] = {}
    for name in _order(spec):
        group, part = kinds[name]
        mixer = group.mixer if isinstance(group.mixer, Attention) else None
        borrows = mixer is not None and mixer.kv == "earlier"
        way = live, lent.get(mixer.window, (live, live)) if mixer is not None and borrows else (live, live)
        if (name, way) not in marks:
            marks[name, way] = _layer(group, part, live, source, way[1])
            runs[name].append(way)
        calls[name, way] = calls.get((name, way), 0) + 1
        _, live, lends = marks[name, way]
        if mixer is not None and not borrows:
            lent[mixer.window] = lends
    made: list[Part] = []
    for name, (_, part) in kinds.items():
        made += _apart(part, [(*marks[name, way][:2], calls[name, way]) for way in runs[name]])
    return made, live


def _order(spec: Stack) -> Iterator[str]:
    """The kinds of layers as they come; without a schedule the first layer of a kind and, once, all behind it."""
    if spec.schedule:
        yield from spec.schedule
        return
    for group in spec.layers:
        yield group.name
        if not (isinstance(group.count, int) and group.count == 1):
            yield group.name


def _apart(part: Part, ways: list[tuple[Part, bool, int]]) -> Iterator[Part]:
    """One kind of layers: (marked, whether its result is live, how many) of all ways it is passed. The last holds all
    weights, and is as many layers as the others leave: a count may be a symbol."""
    rest = part.calls
    for i, (marked, live, times) in enumerate(ways):
        marked = marked if live else _dead(part)
        if i == len(ways) - 1:
            yield replace(marked, calls=rest)
        else:
            rest = rest - times
            yield replace(weightless(marked), name=f"{part.name} (way {i + 1})", calls=times)


def _layer(group: LayerGroup, part: Part, live: bool, source: bool, lent: _Lent) -> tuple[Part, bool, _Lent]:
    """One layer whose input is live or not, whether its result is, and whether the keys and values that it made are.

    lent: whether those that it borrows are."""
    entry, body, lends = live, [], (False, False)
    for child in part.body:
        if isinstance(child, Op):
            body.append(replace(child, live=live))
            continue
        reads = entry if group.placement.startswith("parallel") else live
        if child.name == "attention":
            lends = (True, True) if reads else _updated(child)
        block, out = _block(child, reads, source, lent)
        body.append(block)
        live = live or out
    return replace(part, body=tuple(body)), live, lends


def _updated(attention: Part) -> _Lent:
    """Whether low-rank updates make keys and values live where nothing else does."""
    names = {op.name for op in attention.body}
    fused = "qkv_proj_lora_B" in names
    keys = fused or "k_proj_lora_B" in names
    alike = not names & {"v_proj", "qkv_proj"}
    return keys, "v_proj_lora_B" in names or fused or (keys and alike)


def _block(part: Part, x: bool, source: bool = False, lent: _Lent = (True, True)) -> tuple[Part, bool]:
    """A block whose input is live or not, and whether its result is. lent: as in `_layer`.

    What is unknown here is passed as a whole: with a live input every operand in it is live.
    """
    reads = reads_of(part)
    source = source and part.name == "cross_attention"
    if not x and not source and not _trains(part):
        return _dead(part), False
    if part.name == "indexer":
        return _dead(part), False
    if reads is None:
        if x:
            return part, True
        raise Refused(
            "adapter", f"blocks whose inner flow is known, in the first layer ({', '.join(KNOWN)})", part.name
        )
    env = {"x": x, "source": source, "lent_k": x and lent[0], "lent_v": x and lent[1]}
    body: list[Part | Op] = []
    for child in part.body:
        if isinstance(child, Part):
            behind = child.name == "adapter"
            given = any(env.values()) if behind else _any(env, reads.get(child.name, BLOCK_INPUT))
            inner, env[child.name] = _block(child, given)
            body.append(inner)
        else:
            body.append(_op(child, reads, env))
    passed = env.keys() - {"x", "source", "lent_k", "lent_v"}
    core = [op for op in body if isinstance(op, Op) and op.kind == "attention"]
    # Scores and values are computed again together, if at all.
    together = any(env[op.name] for op in core)
    body = [replace(op, live=together) if op in core else op for op in body]
    return replace(part, body=tuple(body)), any(env[name] for name in passed)


def _op(op: Op, reads: Reads, env: dict[str, bool]) -> Op:
    """One op marked, and whether its result is live noted in `env`; a low-rank update makes that of its matrix so."""
    base, _, half = op.name.partition("_lora_")
    if half == "B":
        env[base] = True
        return op
    if op.kind in ("linear", "attention") or op.name in reads:
        if base not in reads:
            if not env["x"]:
                raise Refused("adapter", "products whose operands are known, in the first layer", op.name)
            env[op.name] = True
            return op
        operands = [any(env.get(name, False) for name in names) for names in reads[base]]
        live = any(operands) or _trains(op)
        env[op.name] = live
        if op.kind == "attention":
            return replace(op, backward=sum(operands) * op.flops)
        return replace(op, live=live, input_grad=op.input_grad and operands[0])
    if _trains(op):
        env[op.name] = True
    return replace(op, live=any(env.values()))


def _any(env: dict[str, bool], operands: tuple[tuple[str, ...], ...]) -> bool:
    return any(env.get(name, False) for names in operands for name in names)


def _trains(node: Part | Op) -> bool:
    """Whether any weight in it is trained."""
    if isinstance(node, Op):
        return any(weight.trainable for weight in node.weights)
    return any(map(_trains, node.body))


def _dead(part: Part) -> Part:
    """`part` with nothing in it that going back passes."""

    def dead(child: Part | Op) -> Part | Op:
        return _dead(child) if isinstance(child, Part) else replace(child, live=False, backward=0)

    return replace(part, body=tuple(map(dead, part.body)))


def weightless(part: Part) -> Part:
    """`part` as calls of weights that stand elsewhere in the tree."""

    def inner(child: Part | Op) -> Part | Op:
        if isinstance(child, Part):
            return weightless(child)
        return replace(child, weights=(), backward=backward(child), moves=_as_with_weights(child))

    return replace(part, body=tuple(map(inner, part.body)))


def _as_with_weights(op: Op) -> Callable[[], Moves]:
    """What an op moves, its weights told as a number."""
    return lambda: replace(
        Moves() if op.moves is None else op.moves(), weight_reads=op.weights_read, weight_grads=op.weight_gradients
    )
