"""The layers of a stack in the order they run, those of one kind as one part, and each way of passing them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from calc.blocks.ahead import ahead
from calc.blocks.layer import layer
from calc.blocks.surroundings import Lender, Surroundings
from calc.sizes import is_exactly
from calc.spec import (
    Attention,
    Bottleneck,
    LayerGroup,
    Lora,
    Mla,
    Moe,
    Prefix,
    Rwkv7,
    Stack,
    Tower,
)
from calc.spec.load import Load
from calc.trace.echo import echo
from calc.trace.op import Op
from calc.trace.part import Part
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

Live = tuple[bool, ...]
"""Which of what a layer reads needs a gradient: the stream, what a router carries on, and keys and values, or values
alone, that it borrows."""


def layers(t: Trace, spec: Stack, x: Tensor, load: Load, around: Surroundings) -> tuple[Tensor, Load]:
    """All layers, those of one kind as one part, and the load as the last of them sees it.

    Where the first one reads what needs no gradient (all ahead of an adapter is frozen; DETR's decoder starts from
    zeros), layers of one kind may differ in what going back takes: each way of passing one is a part of its own.
    """
    before, t.adapter = t.adapter, _within(t, spec)
    t.clamps = isinstance(spec, Tower) and spec.clipped
    if x.grad:
        for group in spec.layers:
            x, load = ahead(t, spec, group, x, load, around)
            read = (x, *_carried(group, around))
            body, x = _recorded(t, group, x, load, around)
            t.body.append(_part(spec, group, read, body, (x, *_left(group, around))))
    else:
        x, load = _unrolled(t, spec, x, load, around)
    t.adapter, t.clamps = before, False
    around.ends.append((x, around.grid))
    return x, load


def _captured_ahead(
    t: Trace, spec: Stack, group: LayerGroup, x: Tensor, load: Load, around: Surroundings
) -> tuple[tuple[Part | Op, ...], Tensor, Load]:
    """Its ops, and the same."""
    loads: list[Load] = []

    def run() -> Tensor:
        y, left = ahead(t, spec, group, x, load, around)
        loads.append(left)
        return y

    body, y = t.captured(run)
    return body, y, loads[0]


def unread(t: Trace, spec: Tower, count: int, x: Tensor, load: Load, around: Surroundings) -> None:
    """Leave the last `count` layers to run behind x, and the norm behind them, where nothing reads them: no gradient
    reaches them, so nothing of them is kept. Their weights stand in the part of the others."""
    read = t.body[-1]
    assert isinstance(read, Part)
    t.body[-1] = replace(read, calls=read.calls - count)
    with t.without_gradient():
        if count:
            body, y = _recorded(t, spec.layers[0], x, load, around)
            dead = Part(f"{read.name} (unread)", body, calls=count, copies=0, inputs=(x,), outputs=(y,))
            t.body.append(echo(dead))
            x = y
        if spec.final_norm is not None:
            t.norm("final_norm", spec.final_norm, x)


def _within(t: Trace, spec: Stack) -> Lora | Bottleneck | Prefix | None:
    """The adapter that stands in the layers of this stack: in an encoder's too, but in no vision tower's."""
    adapter = t.whole
    if isinstance(spec, Tower):
        return adapter if spec.name == "encoder" and isinstance(adapter, Lora | Bottleneck) else None
    return adapter if isinstance(adapter, Lora | Bottleneck | Prefix) else None


def _recorded(
    t: Trace, group: LayerGroup, x: Tensor, load: Load, around: Surroundings
) -> tuple[tuple[Part | Op, ...], Tensor]:
    """One layer's ops, and its result."""
    return t.captured(lambda: layer(t, group, x, load, around))


def _carried(group: LayerGroup, around: Surroundings) -> tuple[Tensor, ...]:
    """What a layer's router reads of the one before it, and what experts of that give late; or the vectors ahead of the
    halving that stands ahead of it, where their keys are its."""
    if getattr(group.mixer, "unhalved", False) and around.stage is not None and around.stage.before is not None:
        return (around.stage.before[0],)
    router = group.channel.deep_router if isinstance(group.channel, Moe) else None
    read = () if router is None or not router.carries or around.router is None else (around.router,)
    return read if around.late is None else (*read, around.late)


def _left(group: LayerGroup, around: Surroundings) -> tuple[Tensor, ...]:
    """What a layer's router, which has just been recorded, leaves for the next one, and what its experts give late."""
    deep = isinstance(group.channel, Moe) and group.channel.deep_router is not None
    made = (around.router,) if deep and around.router is not None else ()
    return made if around.late is None else (*made, around.late)


def _part(
    spec: Stack,
    group: LayerGroup,
    inputs: tuple[Tensor, ...],
    body: tuple[Part | Op, ...],
    outputs: tuple[Tensor, ...],
) -> Part:
    """One kind of layers."""
    made = Part(
        f"layers.{{{group.name}}}" if len(spec.layers) > 1 else "layers.{}",
        body,
        calls=group.count,
        copies=1 if group.shared else group.count,
        layer=True,
        indices=_indices(spec, group),
        group=group.name,
        inputs=inputs,
        outputs=outputs,
    )
    return echo(made) if group.again else made


@dataclass(slots=True)
class _Way:
    """One kind of layers as it is passed with some of what it reads needing a gradient. times: how many of them are.
    router: what its router leaves for the next layer's; late: what its experts give behind that."""

    part: Part
    result: Tensor
    lent: list[tuple[Lender, Tensor, Tensor]]
    router: Tensor | None
    late: Tensor | None
    times: int = 0


def _unrolled(t: Trace, spec: Stack, x: Tensor, load: Load, around: Surroundings) -> tuple[Tensor, Load]:
    """All layers in the order they run; the last way of each kind holds its weights, and is as many layers as the
    others leave: a count may be a symbol."""
    groups = {group.name: group for group in spec.layers}
    ways: dict[tuple[str, Live], _Way] = {}
    ahead: dict[str, tuple[Part | Op, ...]] = {}
    for name in _order(spec):
        group = groups[name]
        if name not in ahead:
            ahead[name], x, load = _captured_ahead(t, spec, group, x, load, around)
        live = name, (x.grad, *_borrowed_live(group, around))
        if live not in ways:
            lent, read = len(around.lent), (x, *_carried(group, around))
            body, y = _recorded(t, group, x, load, around)
            part = _part(spec, group, read, body, (y, *_left(group, around)))
            ways[live] = _Way(part, y, around.lent[lent:], around.router, around.late)
        way = ways[live]
        way.times += 1
        around.lent += way.lent
        around.router, around.late = way.router, way.late
        x = way.result
    left = {group.name: group.count for group in spec.layers}
    for i, ((name, _), way) in enumerate(ways.items(), start=1):
        t.body += ahead.pop(name, ())
        if any(other == name for other, _ in list(ways)[i:]):
            left[name] = left[name] - way.times
            number = sum(other == name for other, _ in list(ways)[:i])
            t.body.append(_apart(way, number))
        else:
            t.body.append(replace(way.part, calls=left[name]))
    return x, load


def _borrowed_live(group: LayerGroup, around: Surroundings) -> tuple[bool, ...]:
    mixer, carried = group.mixer, tuple(each.grad for each in _carried(group, around))
    if isinstance(mixer, Rwkv7) and around.values is not None:
        return (around.values.grad,)
    if not isinstance(mixer, Attention | Mla) or mixer.kv != "earlier":
        return carried
    lender = mixer.position if isinstance(mixer, Mla) else mixer.window
    return (*carried, *(each.grad for each in around.borrowed(lender)))


def _apart(way: _Way, number: int) -> Part:
    """A way of passing layers whose weights stand in another part, the last way of their kind."""
    return replace(echo(way.part), name=f"{way.part.name} (way {number})", calls=way.times, way=number)


def _order(spec: Stack) -> Iterator[str]:
    """The kinds of layers as they come; without a schedule the first layer of a kind and, once, all behind it."""
    if spec.schedule:
        yield from spec.schedule
        return
    for group in spec.layers:
        yield group.name
        if not is_exactly(group.count, 1):
            yield group.name


def _indices(spec: Stack, group: LayerGroup) -> tuple[int, ...] | None:
    """The numbers of this group's layers; None where there is one group, or where sizes are no ints."""
    if len(spec.layers) == 1:
        return None
    if spec.schedule is not None:
        members = tuple(i for i, name in enumerate(spec.schedule) if name == group.name)
        return members[:1] if group.shared else members
    if not all(isinstance(g.count, int) for g in spec.layers):
        return None
    start = 0
    for other in spec.layers:
        if other.name == group.name:
            break
        start += other.count
    return tuple(range(start, start + (1 if group.shared else group.count)))
