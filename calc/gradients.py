"""Which products going back takes when most weights are frozen.

A product needs the gradient of an operand only where that operand is trained or depends on something that is. In a
model that is trained whole this is all of them, but for inputs of the model itself. Beside adapters nothing before the
first one takes a gradient: so the first layer that has one differs from those behind it, and is a part of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from calc.errors import Refused
from calc.op import Op, Part
from calc.sizes import Size
from calc.spec import LayerGroup, ModelSpec, Stack

Body = tuple[Part | Op, ...]
Reads = dict[str, tuple[tuple[str, ...], ...]]
"""Op -> its operands that are no weights, each by the names of what it is made from; `x` is the block's input."""

_X = (("x",),)
_MLP: Reads = {
    **dict.fromkeys(("gate_proj", "up_proj", "gate_up_proj"), _X),
    "down_proj": (("gate_proj", "up_proj", "gate_up_proj"),),
}
_MAMBA: Reads = {
    "in_proj": _X,
    "conv": (("in_proj",),),
    "x_proj": (("conv",),),
    "dt_proj": (("x_proj",),),
    "scan": (("conv", "dt_proj", "x_proj"), ("x_proj",)),
    "out_proj": (("scan", "conv", "in_proj"),),
}
_MOE: Reads = {
    **dict.fromkeys(("router", "latent_down", "shared_expert", "shared_expert_gate", "mlp"), _X),
    "experts.{}": (("x", "latent_down"),),
    "combine": (("experts.{}", "router"),),
    "latent_up": (("combine",),),
    "shared_scale": (("shared_expert", "shared_expert_gate"),),
}


def backward(op: Op) -> Size:
    """FLOPs of going back: as many again for the input, and for the weights or the second operand."""
    if op.backward is not None:
        return op.backward
    if op.kind == "attention":
        return 2 * op.flops
    return (int(op.input_grad) + int(_trains(op))) * op.flops


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
    """All kinds of layers, the first that has something trained apart from those of its kind behind it."""
    kinds = {group.name: (group, part) for group, part in zip(spec.layers, layers, strict=True)}
    order = spec.schedule or tuple(kinds)
    before: dict[str, int] = dict.fromkeys(kinds, 0)
    first = None
    for name in order:
        if live:
            break
        group, part = kinds[name]
        if _layer(group, part, False, source)[1]:
            first, live = name, True
        else:
            before[name] += 1
    made: list[Part] = []
    for name, (group, part) in kinds.items():
        # A kind that comes in one piece before the first trained layer is wholly dead, however many its layers are.
        if before[name] == order.count(name):
            made.append(_dead(part))
        else:
            made += _in_three(group, part, before[name], name == first, source)
    return made, live


def _in_three(group: LayerGroup, part: Part, before: int, first: bool, source: bool) -> Iterable[Part]:
    """The layers of one kind before anything trained, the first with it, and the rest, which holds all the weights."""
    if before:
        yield replace(_weightless(_dead(part)), name=f"{part.name} (before)", calls=before)
    if first:
        yield replace(_weightless(_layer(group, part, False, source)[0]), name=f"{part.name} (first)", calls=1)
    yield replace(_layer(group, part, True, source)[0], calls=part.calls - before - int(first))


def _layer(group: LayerGroup, part: Part, live: bool, source: bool) -> tuple[Part, bool]:
    """One layer whose input is live or not, and whether its result is."""
    entry, body = live, []
    for child in part.body:
        if isinstance(child, Op):
            body.append(replace(child, live=live))
            continue
        reads = entry if group.placement.startswith("parallel") else live
        block, out = _block(child, reads, source)
        body.append(block)
        live = live or out
    return replace(part, body=tuple(body)), live


def _block(part: Part, x: bool, source: bool = False) -> tuple[Part, bool]:
    """A block whose input is live or not, and whether its result is.

    What is unknown here is passed as a whole: with a live input every operand in it is live.
    """
    reads = _reads(part)
    if not x and not (source and part.name == "cross_attention") and not _trains(part):
        return _dead(part), False
    if part.name == "indexer":
        return _dead(part), False
    if reads is None:
        if x:
            return part, True
        raise Refused(
            "adapter", f"blocks whose inner flow is known, in the first layer ({', '.join(_KNOWN)})", part.name
        )
    env = {"x": x, "source": source}
    body: list[Part | Op] = []
    for child in part.body:
        if isinstance(child, Part):
            behind = child.name == "adapter"
            given = any(env.values()) if behind else _any(env, reads.get(child.name, _X))
            inner, env[child.name] = _block(child, given)
            body.append(inner)
        else:
            body.append(_op(child, reads, env))
    passed = {name for name in env if name not in ("x", "source")}
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


def _reads(part: Part) -> Reads | None:
    """The flow in a block, by its name and its ops'; None where it is not known."""
    if part.name in ("attention", "cross_attention"):
        return _attention({op.name for op in part.body}, "source" if part.name == "cross_attention" else "x")
    return _KNOWN.get(part.name)


def _attention(names: set[str], source: str) -> Reads:
    """Attention in all its forms: fused, latent, values that are the keys, keys and values of an earlier layer."""
    q = ("q_proj", "q_b_proj", "qkv_proj")
    k = ("k_proj", "kv_a_proj", "kv_b_proj", "qkv_proj")
    v = ("v_proj", "kv_b_proj", "qkv_proj")
    if not names & set(v):
        v = ("k_proj",)
    if not names & set(k):
        k = v = ("x",)
    weights = ("scores", "distance_scores", "relative_key")
    return {
        **dict.fromkeys(("q_proj", "q_a_proj", "qkv_proj", "kv_a_proj"), _X),
        **dict.fromkeys(("k_proj", "v_proj"), ((source,),)),
        "q_b_proj": (("q_a_proj",),),
        "kv_b_proj": (("kv_a_proj",),),
        "pos_proj": ((),),
        "scores": (q, (*k, "prefix")),
        "distance_scores": (q, ("pos_proj",)),
        "relative_key": (q,),
        "values": (weights, (*v, "prefix")),
        "relative_value": (weights,),
        "o_proj": (("values", "relative_value", *(q if "gate" in names else ())),),
    }


_KNOWN: dict[str, Reads] = {
    "attention": _attention(set(), "x"),
    "cross_attention": _attention(set(), "source"),
    "mlp": _MLP,
    "macaron": _MLP,
    "shared_expert": _MLP,
    "experts.{}": _MLP,
    "moe": _MOE,
    "mamba": _MAMBA,
    "per_layer": {"gate_proj": _X, "up_proj": (("gate_proj",),)},
    "adapter": {"down": _X, "up": (("down",),)},
}
"""Block -> the flow in it."""


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


def _weightless(part: Part) -> Part:
    """`part` as calls of weights that stand elsewhere in the tree."""

    def weightless(child: Part | Op) -> Part | Op:
        if isinstance(child, Part):
            return _weightless(child)
        return replace(child, weights=(), backward=backward(child))

    return replace(part, body=tuple(map(weightless, part.body)))
