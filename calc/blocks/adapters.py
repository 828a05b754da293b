"""Adapters: the trained weights beside a model that stays as it is, each where the blocks that it changes ask for it.

Low-rank updates stand with the matrices that they update (`calc.trace.primitives.linear`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from calc.errors import Refused
from calc.sizes import Size, is_exactly
from calc.spec import Attention, Bottleneck, ChunkAttention, FunnelAttention, Lora, ModelSpec, Prefix, Prompt, Stack
from calc.spec.adapters import DEFAULT_TARGETS
from calc.spec.load import Load
from calc.trace.op import Op
from calc.trace.part import Part
from calc.trace.shard import COLUMN, ROW, key_value
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

FUSED = "qkv_proj"
"""Queries, keys and values in one matrix."""


def bottleneck(t: Trace, x: Tensor) -> Tensor:
    """A block's result behind its bottleneck: 4 * tokens * d_model * width FLOPs; as it is, where there is none.

    Ranks divide the width, as NeMo's ParallelLinearAdapter does, and sum what comes back.
    """
    adapter = t.adapter
    if not isinstance(adapter, Bottleneck):
        return x
    with t.trained(), t.part("adapter", x, of="adapter") as out:
        small = t.linear("down", x, adapter.width, bias=True, inside=False, shard=COLUMN)
        up = t.linear("up", t.activation("activation", "gelu", small), x.width, bias=True, inside=False, shard=ROW)
        out.append(t.add("add", x, up))
    return out[0]


def prefix_length(t: Trace) -> Size | None:
    """How many trained keys stand in front of those of the tokens; None where none do."""
    return t.adapter.length if isinstance(t.adapter, Prefix) else None


def prefix(
    t: Trace, spec: Attention, sizes: tuple[Size, Size, Size], load: Load, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor]:
    """Keys and values with trained ones before them, the same for all sequences; ranks have those of their heads.

    sizes: (kv_heads, d_head, d_value). 2 * tokens * length * n_heads * (d_head + d_value) FLOPs more for scores and
    values. Errors: Refused for attention whose keys are not plain ones of its own.
    """
    assert isinstance(t.adapter, Prefix)
    if spec.kv != "own" or spec.position not in ("rope", "none"):
        raise Refused("adapter", "another than a prefix", "layers without plain keys and values of their own")
    if spec.buckets is not None or spec.shaw is not None or spec.disentangled is not None:
        raise Refused("adapter", "another than a prefix", "layers with learned distances")
    kv_heads, d_head, d_value = sizes
    length = t.adapter.length
    with t.trained():
        shard = key_value(kv_heads)
        keys = t.weight("prefix.key", kv_heads, length, d_head, of="adapter", shard=shard)
        values = t.weight("prefix.value", kv_heads, length, d_value, of="adapter", shard=shard)
        found = t.parameters("prefix", (keys, values), length * kv_heads, d_head + d_value, of="adapter")
    rows = load.batch * (load.seq + length)
    return (
        t.joined(k, found, rows=rows, width=kv_heads * d_head, split="kv"),
        t.joined(v, found, rows=rows, width=kv_heads * d_value, split="kv"),
    )


def prompted(t: Trace, spec: Stack, x: Tensor, load: Load) -> Tensor:
    """The first vectors with trained ones before them, where there are any."""
    adapter = getattr(spec, "adapter", None)
    if not isinstance(adapter, Prompt):
        return x
    with t.trained():
        table = t.weight("prompt.weight", adapter.length, x.width, of="adapter")
        found = t.parameters("prompt", (table,), adapter.length, x.width, of="adapter")
    return t.joined(found, x, rows=load.tokens, width=x.width)


def prompt_vectors(spec: Stack) -> Size:
    """How many trained vectors stand in front of a stack's own."""
    adapter = getattr(spec, "adapter", None)
    return adapter.length if isinstance(adapter, Prompt) else 0


def with_prompt(spec: Stack, load: Load) -> Load:
    """The load of a stack's layers. The pass that begins a sequence reads the prompt; later ones find it cached."""
    n = prompt_vectors(spec)
    begins = not load.decode and is_exactly(load.context, 0)
    return replace(load, seq=load.seq + n) if begins else replace(load, context=load.context + n)


def check_adapter(spec: ModelSpec, load: Load) -> None:
    """Errors: Refused where the adapter has no place in this model."""
    if spec.adapter is None:
        return
    if spec.contrast is not None or load.mtp:
        raise Refused("adapter", "a model whose one end is a head or a stack", "further ends (contrast, mtp)")
    if spec.denoised is not None:
        raise Refused("adapter", "none: of denoisers it is not tried what autograd keeps beside one", "one")
    if any(group.patched is not None for group in spec.layers):
        raise Refused("adapter", "none: of patches of bytes it is not tried what autograd keeps beside one", "one")
    if any(isinstance(mixer, FunnelAttention) for group in spec.layers for mixer in group.mixers):
        raise Refused("adapter", "none: of halved texts it is not tried what autograd keeps beside one", "one")
    if spec.eyes is not None:
        raise Refused("adapter", "none: which matrices of eyes and ears it would name is not described", "one")
    if spec.skipped is not None:
        raise Refused("adapter", "none: layers that no text runs have matrices of the same names", "one")
    if any(isinstance(mixer, ChunkAttention) for group in spec.layers for mixer in group.mixers):
        raise Refused("adapter", "none: of sound in chunks it is not tried what autograd keeps beside one", "one")
    if any(group.shared_block is not None for group in spec.layers):
        raise Refused("adapter", "a model whose layers have weights of their own", "a block that several layers share")
    if isinstance(spec.adapter, Lora) and any(
        stack.distances is not None and not stack.distances[0].own for stack in spec.stacks
    ):
        for name in {"q_proj", "k_proj"} & set(spec.adapter.targets):
            raise Refused("targets", "matrices that read tokens alone, and not vectors of distances too", name)
    if isinstance(spec.adapter, Prefix | Prompt) and spec.encoder is not None:
        raise Refused("adapter", "lora or bottleneck in a model with an encoder", "prefix or prompt")
    if isinstance(spec.adapter, Prompt) and (spec.per_layer is not None or getattr(spec.embedding, "vectors", 1) != 1):
        raise Refused("adapter", "another than a prompt", "a front or layers that number tokens themselves")
    if isinstance(spec.adapter, Prefix):
        for group in spec.layers:
            if not isinstance(group.mixer, Attention):
                found = f"layers {group.name} without plain keys and values of their own"
                raise Refused("adapter", "another than a prefix", found)


def check_targets(tree: Part, adapter: Lora) -> None:
    """Errors: Refused for a target that is no matrix of a layer, or one that is not multiplied as a whole."""
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
        if isinstance(child, Part) and child.role not in ("pictures", "sounds", "indexer"):
            yield from _matrices(child, inside or child.layer)
        elif isinstance(child, Op) and inside and child.rows is not None:
            yield child
