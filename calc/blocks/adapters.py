"""Adapters: a model's tree with every weight frozen, and the trained ops beside what they adapt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from calc.blocks.attention import head_sizes
from calc.blocks.core import matrix
from calc.blocks.linear import elementwise, gather, linear, residual
from calc.errors import Refused
from calc.functions import Attend, Matmul
from calc.load import Load
from calc.op import Component, Op, Part, Weight
from calc.sizes import Size
from calc.spec import Attention, Bottleneck, LayerGroup, Lora, ModelSpec, Prefix, Prompt, Stack
from calc.spec.adapters import DEFAULT_TARGETS

FUSED = "qkv_proj"
"""Queries, keys and values in one matrix."""
Body = tuple[Part | Op, ...]
Change = Callable[[Part, LayerGroup, Size], Part]
"""(a layer, its description, the stack's d_model) -> the layer with its adapters."""
_BLOCKS = {
    *("attention", "linear_attention", "delta_net", "kda", "gated_convolution", "mamba", "mamba2", "rwkv7", "parallel"),
    *("mlp", "moe"),
}
"""Mixers and channel mixers: the blocks of a layer that a bottleneck stands behind."""


def adapted(tree: Part, spec: ModelSpec) -> Part:
    """`tree` of `spec` without adapter -> with what `spec.adapter` adds; only that is trainable.

    Errors: Refused where the adapter has no place in this model.
    """
    adapter = spec.adapter
    if any(group.shared_block is not None for group in spec.layers):
        raise Refused("adapter", "a model whose layers have weights of their own", "a block that several layers share")
    if spec.contrast is not None or any(child.name.startswith("mtp") for child in tree.body):
        raise Refused("adapter", "a model whose one end is a head or a stack", "further ends (contrast, mtp)")
    frozen = _frozen(tree)
    match adapter:
        case Lora():
            _check_targets(adapter, frozen)
            return _through_layers(frozen, spec, lambda layer, group, d_model: low_rank(adapter, layer))
        case Bottleneck():
            return _through_layers(frozen, spec, lambda layer, group, d_model: _bottleneck(adapter, layer, d_model))
        case Prefix():
            _check_alone(spec)
            return _through_layers(frozen, spec, lambda layer, group, d_model: _prefix(adapter, layer, group, d_model))
        case Prompt():
            _check_alone(spec)
            if spec.per_layer is not None or getattr(spec.embedding, "vectors", 1) != 1:
                raise Refused("adapter", "another than a prompt", "a front or layers that number tokens themselves")
            table = Weight("prompt.weight", (adapter.length, spec.d_model), "adapter")
            behind = 1 + next(i for i, child in enumerate(frozen.body) if child.name == "embedding")
            prompt = gather("prompt", "adapter", (table,), adapter.length, spec.d_model)
            return replace(frozen, body=(*frozen.body[:behind], prompt, *frozen.body[behind:]))
    return tree


def prompt_vectors(spec: Stack) -> Size:
    """How many trained vectors stand in front of a stack's own."""
    adapter = getattr(spec, "adapter", None)
    return adapter.length if isinstance(adapter, Prompt) else 0


def with_prompt(spec: Stack, load: Load) -> Load:
    """The load of a stack's layers. The pass that begins a sequence reads the prompt; later ones find it cached."""
    n = prompt_vectors(spec)
    begins = not load.decode and isinstance(load.context, int) and load.context == 0
    return replace(load, seq=load.seq + n) if begins else replace(load, context=load.context + n)


def _check_alone(spec: ModelSpec) -> None:
    if spec.encoder is not None:
        raise Refused("adapter", "lora or bottleneck in a model with an encoder", "prefix or prompt")


def _check_targets(adapter: Lora, tree: Part) -> None:
    known: dict[str, bool] = {}
    for op in _matrices(tree):
        known[op.name] = known.get(op.name, False) or op.in_parts
    for target in adapter.targets:
        if target not in known:
            raise Refused("targets", f"dense matrices of the layers: {', '.join(known) or 'there are none'}", target)
        if known[target]:
            whole = "matrices that are multiplied as a whole; what an update of one used in parts costs is not counted"
            raise Refused("targets", whole, target)


def usual_targets(tree: Part) -> tuple[str, ...]:
    """The matrices that an update adapts where none are named: the paper's, or the fused one where a model's queries,
    keys and values come out of one."""
    names = {op.name for op in _matrices(tree)}
    return (FUSED,) if FUSED in names and not names.issuperset(DEFAULT_TARGETS) else DEFAULT_TARGETS


def _matrices(part: Part, inside: bool = False) -> Iterator[Op]:
    """The dense matrices of all layers that may have an adapter."""
    for child in part.body:
        if isinstance(child, Part) and child.name not in ("vision", "indexer"):
            yield from _matrices(child, inside or child.layer)
        elif isinstance(child, Op) and inside and child.rows is not None:
            yield child


def _frozen(part: Part) -> Part:
    """`part` with no weight that is trained."""

    def frozen(child: Part | Op) -> Part | Op:
        if isinstance(child, Part):
            return _frozen(child)
        frozen_weights = tuple(replace(weight, trainable=False) for weight in child.weights)
        return replace(child, weights=frozen_weights).moving(weight_grads=0)

    return replace(part, body=tuple(map(frozen, part.body)))


def _through_layers(tree: Part, spec: ModelSpec, change: Change) -> Part:
    """`change` on every kind of layer of the main stack and of the encoder."""

    def through(body: Body, stack: Stack) -> Body:
        groups = iter(stack.layers)
        changed: list[Part | Op] = []
        for child in body:
            if isinstance(child, Part) and child.layer:
                child = change(child, next(groups), stack.d_model)
            elif isinstance(child, Part) and child.name == "encoder" and spec.encoder is not None:
                child = replace(child, body=through(child.body, spec.encoder))
            changed.append(child)
        return tuple(changed)

    return replace(tree, body=through(tree.body, spec))


def low_rank(adapter: Lora, part: Part, own: Component | None = "adapter") -> Part:
    """2 * rows * rank * (d_in + d_out) FLOPs more for a product with rows vectors.

    own: what the updates' weights are reported as; None: as the matrices beside which they stand.
    """
    body: list[Part | Op] = []
    for child in part.body:
        if isinstance(child, Part) and child.name != "indexer":  # which no gradient passes
            child = low_rank(adapter, child, own)
        body.append(child)
        if isinstance(child, Op) and child.rows is not None and child.name in adapter.targets:
            d_out, d_in = child.weights[0].shape
            for half, wide, out in (("A", d_in, adapter.rank), ("B", adapter.rank, d_out)):
                small = linear(f"{child.name}.lora_{half}", child.rows, wide, out, own or child.component)
                body.append(_as_shared(replace(small, name=f"{child.name}_lora_{half}"), child))
            # What the update's scale multiplies is added to what the matrix itself gave.
            given = child.rows * d_out
            body.append(elementwise(f"{child.name}_lora_add", own or child.component, "add", 2 * given, given))
    return replace(part, body=tuple(body))


def _as_shared(small: Op, base: Op) -> Op:
    """The product beside `base` as so many of as many rows, where experts share its rows."""
    if not isinstance(base.shape, Matmul) or not isinstance(small.shape, Matmul) or base.in_parts:
        return small
    shape = replace(small.shape, m=base.shape.m, groups=base.shape.groups)
    moved = base.shape.groups * small.weights_read
    return replace(small, shape=shape).moving(weight_reads=moved, weight_grads=moved)


def _bottleneck(adapter: Bottleneck, layer: Part, d_model: Size) -> Part:
    """4 * tokens * d_model * width FLOPs behind the mixer and the channel mixer each."""

    def behind(child: Part | Op) -> Part | Op:
        if not isinstance(child, Part) or child.name not in _BLOCKS:
            return child
        rows = next(op.rows for op in child.body if isinstance(op, Op) and op.rows is not None)
        small = (
            linear("down", rows, d_model, adapter.width, "adapter", bias=True),
            elementwise("activation", "adapter", "gelu", rows * adapter.width, rows * adapter.width),
            linear("up", rows, adapter.width, d_model, "adapter", bias=True),
            residual("add", rows, d_model),
        )
        return replace(child, body=(*child.body, Part("adapter", small)))

    return replace(layer, body=tuple(map(behind, layer.body)))


def _prefix(adapter: Prefix, layer: Part, group: LayerGroup, d_model: Size) -> Part:
    """2 * tokens * length * n_heads * (d_head + d_value) FLOPs more for scores and values."""
    spec = group.mixer
    if not isinstance(spec, Attention) or spec.kv != "own" or spec.position not in ("rope", "none"):
        raise Refused(
            "adapter", "another than a prefix", f"layers {group.name} without plain keys and values of their own"
        )
    if spec.buckets is not None or spec.shaw is not None:
        raise Refused("adapter", "another than a prefix", f"layers {group.name} with learned distances")
    heads, kv_heads, d_head, d_value = head_sizes(spec, d_model)
    keys = Weight("prefix.key", (adapter.length, kv_heads, d_head), "adapter")
    values = Weight("prefix.value", (adapter.length, kv_heads, d_value), "adapter")
    widths = {"scores": d_head, "values": d_value}
    found = adapter.length * kv_heads

    def longer(block: Part | Op) -> Part | Op:
        if not isinstance(block, Part) or block.name != "attention":
            return block
        rows = next(op.rows for op in block.body if isinstance(op, Op) and op.rows is not None)
        more = {name: 2 * rows * heads * adapter.length * width for name, width in widths.items()}
        body: list[Part | Op] = [gather("prefix", "adapter", (keys, values), found, d_head + d_value)]
        for op in block.body:
            if isinstance(op, Op) and op.name in more:
                op = replace(op, flops=op.flops + more[op.name])
            body.append(_beside(op, adapter.length) if isinstance(op, Op) else op)
        return replace(block, body=tuple(body))

    return replace(layer, body=tuple(map(longer, layer.body)))


def _beside(op: Op, length: Size) -> Op:
    """An op of attention's core with `length` more keys and values for every head, the same for all sequences."""
    if isinstance(op.shape, Attend):
        shape = replace(op.shape, keys=op.shape.keys + length)
        more = matrix(shape) - matrix(op.shape)
        if op.name == "scores":
            own = shape.groups * length * shape.d_head
            whole = matrix(shape)
            return replace(op, shape=shape).moving(reads=op.reads + own, writes=whole, to_chain=whole)
        own = shape.groups * length * shape.d_value
        return replace(op, shape=shape).moving(reads=op.reads + own + more, from_chain=op.from_chain + more)
    return op
