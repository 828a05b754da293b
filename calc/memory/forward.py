"""Activations of a forward pass that keeps nothing for backward: what is live at its widest moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from calc.blocks.around import Around
from calc.blocks.attention import head_sizes
from calc.blocks.moe import slots
from calc.blocks.registry import MIXERS
from calc.errors import Refused
from calc.load import Load
from calc.sizes import Size, ceil_div, largest, maximum, minimum
from calc.spec import (
    Attention,
    DeltaNet,
    GatedConvolution,
    Kda,
    LayerGroup,
    LinearAttention,
    Mamba,
    Mamba2,
    Mla,
    Mlp,
    ModelSpec,
    Moe,
    Parallel,
    Rwkv7,
    SharedBlock,
    Stack,
)
from calc.spec.run import Run as Plan
from calc.trace.op import Op
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over `tokens` new vectors of `sequences` sequences, each of at most `seq` new ones.

    keys: what each of them scores, cached ones included. source: vectors of an encoder's input, of all sequences; 0
    where they have been read. absorbed: latent attention reads latents themselves. width: bytes of an element.
    """

    tokens: Size
    sequences: Size
    seq: Size
    keys: Size
    source: Size = 0
    decode: bool = False
    absorbed: bool = False
    width: int = 2


def widest(spec: ModelSpec, plan: Plan, run: Pass, layers: Mapping[str, Size]) -> Size:
    """Bytes live at the widest moment within a layer of a rank that has these layers.

    As transformers 5.23 runs a layer (executions `eager` and `sdpa`): results live as long as names hold them, so
    beside a block's own are the embeddings, the layer's input, its sum with the mixer's result and the normed input of
    the block; `eager` also holds the mask, and the attention weights to the end of the layer. What single families name
    beside these (GPT-2 the mixer's result) is left out. `fused`, as a serving engine with one kernel for rotary
    positions, for gate and activation and for all experts: the stream and the normed input. Left out everywhere:
    norms, routers, workspaces of kernels, what an allocator rounds up.
    Errors: Refused for a block of which this is not written down.
    """
    if plan.execution == "megatron":
        raise Refused("execution", "eager, sdpa or fused for inference", plan.execution)
    if spec.per_layer is not None or spec.n_streams is not None:
        raise Refused("model", "one whose layers pass on one stream, where activations are counted", spec.name)
    moments: list[Size] = []
    for stack, own in _stacks(spec, run):
        # What blocks that layers share read of the embedded tokens stays to the end.
        shared = any(group.shared_block is not None for group in stack.layers)
        embedded = own.width * own.tokens * stack.d_model if shared else 0
        for group in stack.layers:
            if stack is not spec or not _is_zero(layers[group.name]):
                moments += (embedded + live for live in _layer(group, stack.d_model, plan, own, run.source))
    return largest(moments)


def logits(spec: ModelSpec, plan: Plan, run: Pass) -> Size:
    """Bytes of the logits, in the format of the activations: sampling's own copies are left out."""
    if spec.head is None:
        return 0
    rows = run.tokens if plan.logits == "all" else run.sequences
    columns = spec.vocab_size if spec.head.n_logits is None else spec.head.n_logits
    # Soft-capped logits are a second tensor.
    return rows * ceil_div(columns, plan.tp) * run.width * (1 if spec.head.softcap is None else 2)


def _stacks(spec: ModelSpec, run: Pass) -> Iterator[tuple[Stack, Pass]]:
    if spec.encoder is not None and not run.decode:
        length = ceil_div(run.source, run.sequences)
        yield spec.encoder, replace(run, tokens=run.source, seq=length, keys=length)
    yield spec, run


def _layer(group: LayerGroup, d_model: Size, plan: Plan, run: Pass, source: Size) -> Iterator[Size]:
    """Bytes live at each moment of a layer that can be the widest."""
    if group.macaron or group.convolution is not None:
        raise Refused("model", "attention and feed-forward blocks, where activations are counted", "a convolution")
    named = plan.execution != "fused"
    stream = run.tokens * d_model
    held = (3 if named else 2) * stream
    weights: Size = 0
    if group.shared_block is not None:
        for elements in _ahead(group.shared_block, d_model, plan, run):
            yield run.width * (held + elements)
    for mixer in group.mixers:
        if isinstance(mixer, Attention | Mla):
            held = held + 2 * run.seq * _turned(mixer, d_model)
            if plan.execution == "eager":
                held = held + run.tokens * run.keys
                weights = run.tokens * ceil_div(mixer.n_heads, plan.tp) * run.keys
    if group.mixer is not None:
        for elements in _mixer(group.mixer, d_model, plan, run):
            yield run.width * (held + elements)
    held = held + weights + (stream if named and group.mixer is not None else 0)
    if group.cross is not None:
        for elements in _attention(group.cross, d_model, plan, run, source):
            yield run.width * (held + elements)
    if group.channel is not None:
        for elements in _channel(group.channel, d_model, plan, run):
            yield run.width * (held + elements)


def _ahead(spec: SharedBlock, d_model: Size, plan: Plan, run: Pass) -> Iterator[Size]:
    """Elements of a block that layers share: attention beside what it reads, twice as wide as the stream, then the
    feed-forward block; what an update gives is a tensor of its own until it is added."""
    if plan.execution != "fused":
        raise Refused("execution", "fused for inference with a block that several layers share", plan.execution)
    heads, _, d_head, _ = head_sizes(spec.attention, d_model)
    targets = set(() if spec.adapter is None else spec.adapter.targets)
    updated = heads * d_head if targets & {"q_proj", "k_proj", "v_proj", "qkv_proj"} else 0
    beside = run.tokens * (d_model + updated) + 2 * run.seq * _turned(spec.attention, d_model)
    for elements in _attention(spec.attention, d_model, plan, run, run.tokens):
        yield beside + elements
    d_ff = 4 * d_model if spec.mlp.d_ff is None else spec.mlp.d_ff
    yield run.tokens * d_ff * (4 if "gate_up_proj" in targets else _inner(spec.mlp.gated, spec.mlp.activation, plan))


def _turned(spec: Attention | Mla, d_model: Size) -> Size:
    """How many elements of a head rotary positions turn: as many cosines and sines are there, for all layers."""
    if isinstance(spec, Mla):
        return spec.d_rope if spec.position == "rope" else 0
    return head_sizes(spec, d_model)[2] if spec.position == "rope" else 0


def _mixer(spec: object, d_model: Size, plan: Plan, run: Pass) -> Iterator[Size]:
    match spec:
        case Attention():
            yield from _attention(spec, d_model, plan, run, run.tokens)
        case Mla():
            yield from _latent(spec, d_model, plan, run)
        case Parallel():
            yield from _side_by_side(spec, d_model, plan, run)
        case LinearAttention() | DeltaNet() | Kda() | GatedConvolution() | Mamba() | Mamba2() | Rwkv7():
            if plan.execution != "fused":
                raise Refused("execution", "fused for inference with recurrent layers", plan.execution)
            yield _recurrent(spec, d_model, run)
        case _:
            raise Refused("model", "attention, where activations of inference are counted", type(spec).__name__)


def _side_by_side(spec: Parallel, d_model: Size, plan: Plan, run: Pass) -> Iterator[Size]:
    """Elements: those of each branch, what the branches before it gave, and what it reads where that is multiplied."""
    stream = run.tokens * d_model
    for i, branch in enumerate(spec.branches):
        beside = (i + int(branch.scale_in != 1.0)) * stream
        for elements in _mixer(branch.mixer, d_model, plan, run):
            yield beside + elements


def _recurrent(
    spec: LinearAttention | DeltaNet | Kda | GatedConvolution | Mamba | Mamba2 | Rwkv7, d_model: Size, run: Pass
) -> Size:
    """Elements: results of all matrix products and convolutions, and what the last one reads; kernels for the
    recurrence keep the rest on the chip. RWKV-7: also what its matrices read, which one kernel makes of each token and
    the one before it, and the first layer's values."""
    t = Trace()
    first = Tensor(1, spec.n_heads * spec.d_head) if isinstance(spec, Rwkv7) and spec.value_rank is not None else None
    MIXERS[type(spec)].run(t, spec, Tensor(1, d_model), Load(), Around(values=first))
    ops = [op for op in t.body if isinstance(op, Op)]
    shapes = [op.weights[0].shape for op in ops if op.kind == "linear"]
    mixed = sum(len(op.outputs) * d_model for op in ops if op.name == "shift")
    beside = mixed if first is None else mixed + first.width
    return run.tokens * (sum(shape[0] for shape in shapes) + shapes[-1][1] + beside)


def _attention(spec: Attention, d_model: Size, plan: Plan, run: Pass, read: Size) -> Iterator[Size]:
    """Elements: queries, keys and values (of `read` vectors) beside what rotary positions or scores make of them."""
    heads, kv_heads, d_head, d_value = head_sizes(spec, d_model)
    own_heads = (
        kv_heads if isinstance(plan.tp, int) and plan.tp == 1 else ceil_div(kv_heads, minimum(plan.tp, kv_heads))
    )
    rows, kv_rows = run.tokens * ceil_div(heads, plan.tp), read * own_heads
    q, out = rows * d_head, rows * d_value
    gate = out if spec.gate else 0
    new = 0 if spec.kv == "earlier" else kv_rows * (d_head if spec.kv == "keys" else d_head + d_value)
    own = q + gate + new
    if spec.position == "rope" and plan.execution != "fused":
        # x * cos + turned(x) * sin: three of x's size beside x, for queries and, beside turned queries, for keys.
        yield own + 3 * q
        yield own + q + 3 * kv_rows * d_head
    if plan.execution == "eager" or spec.softcap is not None:
        repeated = 0
        if not (kv_heads is heads or kv_heads == heads):
            repeated = run.sequences * run.keys * ceil_div(heads, plan.tp) * (d_head + d_value)
        yield own + repeated + rows * run.keys * _of_scores(spec, run.width)
        # The weights are held while their product with the values is projected.
        yield own + repeated + rows * run.keys + out + run.tokens * d_model
    else:
        yield own + out + run.tokens * d_model


def _of_scores(spec: Attention, width: int) -> Size:
    """Elements for each score at the softmax: before and after it, and in fp32 where it is computed in that."""
    return 2 + 4 // width if spec.softmax == "fp32" and width < 4 else 2


def _latent(spec: Mla, d_model: Size, plan: Plan, run: Pass) -> Iterator[Size]:
    """Elements: queries before and after their turned part is joined to them, the latent before and after its norm, and
    keys and values made of it.

    Absorbed, keys and values are the latent. An indexer scores all pairs, its heads' sum in fp32.
    """
    heads = ceil_div(spec.n_heads, plan.tp)
    d_query, latent = spec.d_nope + spec.d_rope, spec.kv_rank + spec.d_rope
    q, out = run.tokens * heads * d_query, run.tokens * heads * spec.d_value
    index = 0 if spec.indexer is None else run.tokens * run.keys * (4 // run.width)
    if run.absorbed:
        inner = run.tokens * heads * (latent + spec.kv_rank)
        yield q + run.tokens * latent + index + inner + out + run.tokens * d_model
        return
    read = run.sequences * run.keys if run.decode else run.tokens
    queries = 2 * q + run.tokens * heads * spec.d_rope
    own = queries + run.tokens * (latent + spec.kv_rank) + index
    own = own + read * heads * (spec.d_nope + spec.d_value + d_query)
    if plan.execution == "eager":
        yield own + run.tokens * heads * run.keys * (2 + 4 // run.width if run.width < 4 else 2)
    yield own + out + run.tokens * d_model


def _channel(spec: object, d_model: Size, plan: Plan, run: Pass) -> Iterator[Size]:
    match spec:
        case Mlp():
            if spec.shift and plan.execution != "fused":
                raise Refused("execution", "fused for inference with shifted tokens", plan.execution)
            d_ff = 4 * d_model if spec.d_ff is None else spec.d_ff
            shifted = run.tokens * d_model if spec.shift else 0
            yield shifted + run.tokens * _inner(spec.gated, spec.activation, plan) * _share(d_ff, plan)
        case Moe():
            yield from _experts(spec, d_model, plan, run)
        case _:
            raise Refused("model", "feed-forward blocks, where activations are counted", type(spec).__name__)


def _inner(gated: bool, activation: str, plan: Plan) -> int:
    """How many tensors of the inner width are live at once: what is activated, its activation, and with a gate also
    their product; gelu_new, written out, has three beside what it reads, and quick_gelu two."""
    if gated:
        return 3
    return 2 if plan.execution == "fused" else {"gelu_new": 4, "gelu_fast": 4, "quick_gelu": 3}.get(activation, 2)


def _experts(spec: Moe, d_model: Size, plan: Plan, run: Pass) -> Iterator[Size]:
    """Elements of experts that compute all their tokens in one grouped product, spread evenly over ranks.

    transformers gathers what each expert reads, and weighs and reorders what it gives; one fused kernel reads the
    stream itself, and writes what an expert gives over what it activated.
    """
    rows = slots(spec, run.tokens * spec.top_k)
    width = d_model if spec.d_latent is None else spec.d_latent
    d_expert = _share(spec.d_expert, plan)
    if plan.execution == "fused":
        yield rows * (maximum(2 * d_expert if spec.gated else d_expert, width) + d_expert) + run.tokens * d_model
    else:
        yield rows * (width + (4 if spec.gated else 2) * d_expert)
        yield 4 * rows * width
    if spec.d_shared is not None:
        shared = _inner(spec.gated, spec.activation, plan) * _share(spec.d_shared, plan)
        yield run.tokens * (d_model + shared)


def _share(inner: Size, plan: Plan) -> Size:
    """Of an inner width, what a tensor-parallel rank has."""
    return ceil_div(inner, plan.tp)


def _is_zero(n: Size) -> bool:
    return isinstance(n, int) and n == 0
