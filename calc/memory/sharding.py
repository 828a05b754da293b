"""What one rank holds: which layers its pipeline stage has, and which part of every weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calc.blocks.attention import head_sizes
from calc.errors import Refused
from calc.memory.plan import Plan
from calc.op import Leaf, Weight
from calc.sizes import Size, ceil_div, exact_div, minimum
from calc.spec import Attention, LayerGroup, ModelSpec, Stack

COLUMNS = {"q_proj", "q_b_proj", "kv_b_proj", "gate_proj", "up_proj", "gate_up_proj"}
"""Matrices whose rows [out, in] tensor parallelism divides, with their biases."""
KEYS = {"k_proj", "v_proj"}
"""The same for heads of keys and values."""
ROWS = {"o_proj", "down_proj"}
"""Matrices whose columns it divides; every rank has the whole bias."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One rank of the pipeline. layers: how many of each group. chunks: in how many pieces it holds them.

    held: chunks of one micro-batch whose activations it keeps when it keeps the most.
    """

    name: str
    layers: Mapping[str, Size]
    first: bool = True
    last: bool = True
    chunks: Size = 1
    held: Size = 1


def stages(spec: ModelSpec, plan: Plan) -> list[Stage]:
    """The kinds of pipeline ranks there are; one where there is no pipeline.

    Interleaved (1F1B with `interleave` chunks a rank), rank i begins with 2 (pp - i - 1) + (interleave - 1) pp chunks
    before its first backward, plus the one it is at (Narayanan et al. 2021, arXiv:2104.04473, section 2.2).
    Errors: Refused for stages that do not add up, and for a pipeline of what cannot be cut between layers.
    """
    counts = {group.name: group.count for group in spec.layers}
    if isinstance(plan.pp, int) and plan.pp == 1:
        if plan.stages is not None and plan.stages != (spec.n_layers,):
            raise Refused("stages", "none without a pipeline", ",".join(map(str, plan.stages)))
        return [Stage("all", counts)]
    if spec.towers or any(group.shared for group in spec.layers):
        raise Refused("pp", "1 for a model with towers or shared layers", plan.pp)
    if not isinstance(plan.pp, int):
        raise Refused("pp", "one whole number", plan.pp)
    if not all(isinstance(n, int) for n in counts.values()):
        return _open_stages(spec, plan)
    order = spec.schedule or tuple(group.name for group in spec.layers for _ in range(group.count))
    found, start = [], 0
    for i, length in enumerate(_lengths(len(order), plan)):
        own = order[start : start + length]
        start += length
        name = "first" if i == 0 else "last" if i == plan.pp - 1 else f"stage {i}"
        layers = {group: own.count(group) for group in counts}
        found.append(Stage(name, layers, i == 0, i == plan.pp - 1, plan.interleave, _held(plan, i)))
    return found


def _open_stages(spec: ModelSpec, plan: Plan) -> list[Stage]:
    """First and last rank where the number of layers is an array or a symbol, of a model whose layers are all alike.

    Ranks between hold no more than the first.
    """
    if len(spec.layers) > 1:
        raise Refused("pp", "1 for layers of several kinds whose numbers are arrays or symbols", plan.pp)
    if plan.stages is not None:
        raise Refused("stages", "none where the number of layers is an array or a symbol", "some")
    group = next(iter(spec.layers))
    layers = {group.name: ceil_div(group.count, plan.pp)}
    return [
        Stage("first", layers, True, False, plan.interleave, _held(plan, 0)),
        Stage("last", layers, False, True, plan.interleave, _held(plan, plan.pp - 1)),
    ]


def _lengths(n_layers: int, plan: Plan) -> tuple[int, ...]:
    """Layers of every stage."""
    if plan.stages is None:
        short, more = divmod(n_layers, plan.pp)
        return tuple(short + (i < more) for i in range(plan.pp))
    if len(plan.stages) != plan.pp or sum(plan.stages) != n_layers or min(plan.stages) < 0:
        expected = f"{plan.pp} numbers that add up to {n_layers} layers"
        raise Refused("stages", expected, ",".join(map(str, plan.stages)))
    return plan.stages


def _held(plan: Plan, rank: Size) -> Size:
    """Chunks of micro-batches in flight on a pipeline rank; without micro_batches, as many as fill the pipeline."""
    if isinstance(plan.interleave, int) and plan.interleave == 1:
        held = plan.pp - rank
    else:
        held = 2 * (plan.pp - rank - 1) + (plan.interleave - 1) * plan.pp + 1
    return held if plan.micro_batches is None else minimum(held, plan.micro_batches * plan.interleave)


def held_elements(weight: Weight, leaf: Leaf, spec: ModelSpec, plan: Plan) -> Size:
    """Elements of one copy of `weight` that a tensor-parallel rank holds, the rank with the most where they differ.

    As Megatron-LM splits them (Shoeybi et al. 2019, arXiv:1909.08053, section 3): a block's first matrices by rows of
    [out, in], its last by columns, the token table and the head by rows of the vocabulary. Norms, routers, positions
    and the biases of last matrices stand whole on every rank. Heads of keys are shared by ranks where tp exceeds them.
    """
    if isinstance(plan.tp, int) and plan.tp == 1:
        return weight.elements
    kind = _kind(weight, leaf)
    if kind == "whole" or (kind == "rows" and len(weight.shape) == 1):
        return weight.elements
    rows, *columns = weight.shape
    inner = columns[0] if columns else 1
    if kind == "rows":
        return rows * ceil_div(inner, plan.tp)
    if kind == "columns":
        return inner * ceil_div(rows, plan.tp)
    _, kv_heads, d_head, d_value = _head_sizes(leaf, spec)
    shares = minimum(plan.tp, kv_heads)
    if kind == "keys":
        return inner * ceil_div(rows, shares)
    keys = kv_heads * (d_head + d_value)
    return inner * (ceil_div(rows - keys, plan.tp) + ceil_div(keys, shares))


def _kind(weight: Weight, leaf: Leaf) -> str:
    """How tensor parallelism divides a weight: `columns`, `rows`, `keys`, `both` (a fused projection), or `whole`."""
    name = leaf.op.name
    if leaf.path in ("embedding.token", "lm_head.logits"):
        return "columns"
    if name == "softmax" and weight.component == "attention":
        return "columns"  # sinks, a number a head
    if ".indexer." in leaf.path:
        return "whole"  # every rank chooses for all heads (vllm/model_executor/models/deepseek_v2.py, Indexer)
    if weight.component in ("norm", "router", "positional", "adapter", "embedding", "other", "lm_head"):
        return "whole"
    if name == "qkv_proj":
        return "both"
    if name in KEYS:
        return "keys"
    if name in ROWS:
        return "rows"
    return "columns" if name in COLUMNS else "whole"


def cast_on_rank(op: str, size: Size, vocabulary: bool, heads: tuple[Size, Size, Size, Size], tp: Size) -> Size:
    """Bytes on one tensor-parallel rank of a matrix of `size` bytes that `op` casts, divided as the matrix is.

    heads: as `calc.blocks.attention.head_sizes` of the attention that it belongs to.
    """
    name = op.rpartition(".")[2]
    if vocabulary:
        return ceil_div(size, tp)
    if ".indexer." in op or name not in COLUMNS | ROWS | KEYS | {"qkv_proj"}:
        return size
    if name in COLUMNS | ROWS:
        return ceil_div(size, tp)
    n_heads, kv_heads, d_head, d_value = heads
    shares = minimum(tp, kv_heads)
    if name in KEYS:
        return ceil_div(size, shares)
    keys = kv_heads * (d_head + d_value)
    column = exact_div(size, n_heads * d_head + keys)
    return column * (ceil_div(n_heads * d_head, tp) + ceil_div(keys, shares))


def _place(leaf: Leaf, spec: ModelSpec) -> tuple[Stack, LayerGroup]:
    """The stack and the group of layers that a leaf stands in."""
    tower = leaf.path.partition(".")[0]
    stack = next((each for each in spec.towers if each.name == tower), spec)
    name = next(part.name for part in leaf.parents if part.layer)
    for group in stack.layers:
        if len(stack.layers) == 1 or f"{{{group.name}}}" in name:
            return stack, group
    raise ArithmeticError(f"{leaf.path} is in no layer")


def _head_sizes(leaf: Leaf, spec: ModelSpec) -> tuple[Size, Size, Size, Size]:
    stack, group = _place(leaf, spec)
    nodes = (group.cross,) if ".cross_attention." in leaf.path else group.mixers
    return head_sizes(next(node for node in nodes if isinstance(node, Attention)), stack.d_model)
