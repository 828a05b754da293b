"""What must divide what for a model to be spread over GPUs as a plan says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calc.errors import Refused
from calc.memory.condition import Condition, at_most, divides, must_be_one, size_text
from calc.memory.expert_conditions import of_experts
from calc.memory.fp8_conditions import check_products, check_scaling, of_fp8_weights
from calc.memory.layer_conditions import of_keys, of_layers
from calc.memory.offload_conditions import of_activations_on_host, of_optimizer_on_host
from calc.memory.optimizer_conditions import of_narrow_moments, of_precision_aware
from calc.sizes import Size, at_least, either, is_array, is_exactly
from calc.spec import (
    Attention,
    Bottleneck,
    CompressedAttention,
    DeltaNet,
    GatedConvolution,
    Kda,
    LinearAttention,
    Mamba,
    Mamba2,
    Mla,
    Mlp,
    ModelSpec,
    Moe,
    RgLru,
    Rwkv4,
    Rwkv7,
)
from calc.spec.run import Run
from calc.spec.sparse_blocks import blocks_attended
from calc.spec.traced import Traced

TRACED = "1 for a traced model, of which it is not known how ranks divide it"


def check(spec: ModelSpec, run: Run) -> None:
    """Errors: Refused where whole numbers do not fit together; of arrays and symbols nothing is said."""
    for condition in conditions(spec, run):
        if not condition.is_open and not condition.of_rows and not condition.test(condition.a, condition.b):
            raise Refused(condition.field, condition.expected, condition.found)


def feasible(spec: ModelSpec, run: Run) -> Size | None:
    """For each row of arrays, whether the model can be spread so; None where nothing that is asked is an array."""
    found = None
    for condition in conditions(spec, run):
        if condition.of_rows:
            holds = condition.test(condition.a, condition.b)
            found = holds if found is None else found & holds
    return found


def conditions(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Every condition on a plan. Errors: Refused for blocks of which it is not known how they are spread."""
    if isinstance(spec, Traced):
        for field in ("tp", "pp", "cp", "ep"):
            if not is_exactly(value := getattr(run, field), 1):
                yield must_be_one(field, TRACED, value)
    if run.mode == "training" and run.frozen is not None and spec.adapter is None:
        raise Refused("frozen dtype", "none without an adapter, beside which all else is frozen", run.frozen)
    for field in ("tp", "pp") if spec.skipped is not None else ():
        # Which rank holds weights that no text reads is not written down.
        if not is_exactly(ranks := getattr(run, field), 1):
            yield must_be_one(field, "1 beside layers that a text skips", ranks)
    yield from of_experts(spec, run)
    if not is_exactly(run.tp, 1):
        yield from _tensor(spec, run)
    yield from of_keys(spec, run)
    sparse = blocks_attended(spec.layers, run.seq)
    if sparse is not None and run.mode == "training":
        lengths = f"texts that fill up to neither 3072 nor 4096 tokens, of which {sparse.drawn} blocks cannot be drawn"
        yield Condition("seq", lengths, run.seq, sparse.draws, run.seq, 0)
    if not is_exactly(run.cp, 1):
        yield _whole_parts("seq", run.seq, run.cp)
        if sparse is not None:
            # A block's drawn ones may be any rank's, and no program that hands them over is known.
            yield must_be_one("cp", "1 where long texts attend to blocks", run.cp)
        if spec.encoder is not None and run.source_seq is not None:
            yield _whole_parts("source_seq", run.source_seq, run.cp)
    yield Condition("zero", "0, 1, 2 or 3", run.zero, _stage_of_zero, run.zero, 3)
    if run.offload == "optimizer" and run.mode == "training":
        yield from of_optimizer_on_host(run)
    if run.offload == "activations" and run.mode == "training":
        yield from of_activations_on_host(spec, run)
    if run.mode == "training":
        check_scaling(run.fp8_recipe, run.recompute)
        check_products(run)
    if run.fp8_param_gather and run.mode == "training":
        yield from of_fp8_weights(spec, run)
    if run.mode == "training":
        yield from of_precision_aware(run) if run.precision_aware else of_narrow_moments(run)
    if run.shard is not None:
        yield from _sharing(run, run.shard)
    if not is_exactly(run.pp, 1) or not is_exactly(run.interleave, 1):
        yield from _pieces(spec, run)
    yield from _deepspeed(run)
    yield from _megatron(run)
    if run.schedule in ("zero-bubble", "dualpipe"):
        yield Condition("interleave", f"1 under {run.schedule}", run.interleave, at_most, run.interleave, 1)
    if run.schedule == "dualpipe":
        yield from of_dualpipe(run.pp, run.micro_batches)
    yield from of_layers(spec, run)
    if not is_exactly(run.interleave, 1):
        yield Condition("interleave", "1 without a pipeline", run.interleave, _piped, run.interleave, run.pp)


def _tensor(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    tp = run.tp
    if isinstance(spec.adapter, Bottleneck):
        yield _divisor("the adapter's width", spec.adapter.width, tp)
    for node in (mixer for stack in spec.stacks for group in stack.layers for mixer in group.mixers):
        if isinstance(node, CompressedAttention | Rwkv4 | Rwkv7) and run.mode == "training" and run.divides_sequence:
            # It is not written down of whose tokens a rank makes entries, and mixes each with the one before it.
            yield must_be_one("tp", f"1, or --no-sequence-parallel, in training with {type(node).__name__} layers", tp)
        if isinstance(node, LinearAttention) and run.mode == "training":
            # A single head is read where it lies, and of several copies are kept.
            expected = f"fewer than n_heads = {size_text(node.n_heads)} in training with linear attention"
            yield Condition("tp", expected, tp, _fewer, tp, node.n_heads)
        if isinstance(node, DeltaNet) and node.fused and run.mode == "training":
            # Gates of a single key head are a view of all that is projected, which then stays as a whole.
            expected = f"fewer than n_key_heads = {size_text(node.n_key_heads)} beside one projection of several heads"
            yield Condition("tp", expected, tp, _fewer, tp, node.n_key_heads)
    yield from tensor(spec, tp, run.expert_pieces)


def tensor(spec: ModelSpec, tp: Size, pieces: Size) -> Iterator[Condition]:
    """What must hold for ranks to divide the weights of a model's blocks and what they cache, serving or training.

    pieces: into how many each routed expert is cut; whatever else stands beside attention is cut into tp.
    Errors: Refused for blocks of which it is not known how ranks divide them.
    """
    if isinstance(spec, Traced):
        yield must_be_one("tp", TRACED, tp)
    for stack in spec.stacks:
        for group in stack.layers:
            if group.ngrams is not None:
                yield must_be_one(
                    "tp", "1 beside hashed n-grams, of whose tables it is not written down how ranks divide them", tp
                )
            shared, shorter = group.shared_block, group.shortened
            between = () if shared is None else (shared.attention, shared.mlp)
            between = between if shorter is None else (*between, shorter.attention)
            for node in (*group.mixers, group.cross, group.channel, *between):
                if node is not None:
                    yield from _of_block(node, stack.d_model, tp, pieces)


def _of_block(node: object, d_model: Size, tp: Size, pieces: Size) -> Iterator[Condition]:
    """What ranks ask of one block, whose weights' shards say what each holds.

    Heads are never cut. Recurrences and DeepSeek-V4: vllm-project/vllm (2026), model_executor/layers/mamba_mixer2.py,
    kda.py, deepseek_v4_attention.py, models/qwen3_next.py; linear attention: models/minimax_text_01.py. RWKV-7 by heads
    too, of which all but the ranks of its bottlenecks is (arXiv:2503.14456, section 4.1). Channels that no other reads
    are divided as such: Mamba and the gated convolution as in vLLM's mamba/mamba_mixer.py and mamba/short_conv.py,
    RWKV-4 (arXiv:2305.13048, equation 16); Griffin by the blocks of its gates, made for it (arXiv:2402.19427, section
    4.1).
    """
    match node:
        case Attention() if node.dynamic_mask is not None:
            yield must_be_one("tp", "1 where the values of all heads make a mask (dynamic_mask)", tp)
        case Attention() if node.convolved is not None:
            yield must_be_one(
                "tp", "1 where queries, keys and delayed values are convolved, of which heads have no own", tp
            )
        case Attention():
            yield _divisor("n_heads", node.n_heads, tp)
            kv_heads = node.kv_heads
            expected = f"a divisor or a multiple of n_kv_heads = {size_text(kv_heads)}"
            yield Condition("tp", expected, tp, _heads_divide, tp, kv_heads)
        case Mla() | Kda() | LinearAttention() | Rwkv7():
            yield _divisor("n_heads", node.n_heads, tp)
        case Mamba() | GatedConvolution() | Rwkv4():
            usual = 2 * d_model if isinstance(node, Mamba) else d_model
            yield _divisor("d_inner", usual if node.d_inner is None else node.d_inner, tp)
        case RgLru():
            yield _divisor("n_blocks", node.n_blocks, tp)
        case CompressedAttention():
            yield _divisor("n_heads", node.n_heads, tp)
            yield _divisor("n_out_groups", node.n_out_groups, tp)
        case DeltaNet():
            yield _divisor("n_key_heads", node.n_key_heads, tp)
            yield _divisor("n_value_heads", node.n_value_heads, tp)
        case Mamba2():
            yield _divisor("n_heads", node.n_heads, tp)
            if not is_exactly(node.n_groups, 1):  # a single one stands on every rank
                yield _divisor("n_groups", node.n_groups, tp)
        case Mlp():
            yield _divisor("d_ff", 4 * d_model if node.d_ff is None else node.d_ff, tp)
        case Moe():
            yield _divisor("d_expert", node.d_expert, pieces)
            if node.d_shared is not None:
                yield _divisor("d_shared", node.d_shared, tp)
        case _:
            yield must_be_one("tp", f"1 for a model with {type(node).__name__} layers", tp)


def _sharing(run: Run, shard: Size) -> Iterator[Condition]:
    """Of how many ranks share what ZeRO divides."""
    ranks = run.dp * run.cp
    yield Condition("shard", f"a divisor of dp * cp = {size_text(ranks)}", shard, divides, shard, ranks)
    sharers, expected = shard, f"a multiple of ep = {size_text(run.ep)}"
    if run.expert_tp is not None:
        sharers, expected = shard * run.folded, f"times tp / expert_tp {expected}"
    yield Condition("shard", expected, shard, divides, run.ep, sharers)


def _pieces(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Of the pieces that stages of a pipeline are cut into."""
    stages = run.pp * run.interleave
    expected = f"at most as many stages as layers ({size_text(spec.n_layers)})"
    yield Condition("pp", expected, run.pp, at_most, run.pp, spec.n_layers)
    # Embedding and head may be pieces of their own, as Megatron-LM counts them.
    expected = f"at most {size_text(spec.n_layers + 2)} pieces, one for each layer, embedding and head"
    yield Condition("interleave", expected, stages, at_most, stages, spec.n_layers + 2)
    if run.stack is not None and run.stack.pipelines == "megatron" and not is_exactly(run.interleave, 1):
        # Megatron-Core 0.13, core/pipeline_parallel/schedules.py: no rest smaller than the number of stages.
        passes, name = run.micro_batches_a_step, f"--stack {run.stack.name}"
        expected = f"a multiple of pp = {size_text(run.pp)} under {name} with pieces of stages"
        rounds = either(run.interleave == 1, 1, run.pp) if is_array(run.interleave) else run.pp
        yield Condition("micro_batches", expected, passes, divides, rounds, passes)


def _deepspeed(run: Run) -> Iterator[Condition]:
    """Of which optimizer steps: its BF16_Optimizer, which keeps gradients in two formats, is not described."""
    if run.mode != "training" or run.gradient_copy != "flat":
        return
    if run.precision.gradients == run.precision.updated:
        expected = f"2 or more with gradients in {run.precision.gradients} under --stack deepspeed"
        yield Condition("zero", expected, run.zero, at_most, 2, run.zero)
    if not is_exactly(run.pp, 1):
        several = at_least(run.pp, 2)
        expected = "1 in a pipeline under --stack deepspeed"
        yield Condition("zero", expected, run.zero, at_most, several, run.zero)
        yield Condition("zero", expected, run.zero, at_most, run.zero, 3 - 2 * several)


def _megatron(run: Run) -> Iterator[Condition]:
    """Of Megatron-FSDP, whose guide names tensor, expert and context parallelism alone (core_r0.13, custom_fsdp.md);
    Megatron-Bridge's names pipelines too, as untested. Neither says when their stages are gathered."""
    if run.mode != "training" or run.stack is None or run.stack.gradient_copy != "beside" or is_exactly(run.pp, 1):
        return
    expected = f"0 or 1 in a pipeline under --stack {run.stack.name}, whose FSDP is not described there"
    yield Condition("zero", expected, run.zero, at_most, run.zero, 3 - 2 * at_least(run.pp, 2))


def _whole_parts(name: str, tokens: Size, cp: Size) -> Condition:
    """Context-parallel ranks have as many tokens each."""
    return Condition("cp", f"a divisor of {name} = {size_text(tokens)}", cp, divides, cp, tokens)


def _divisor(name: str, value: Size, tp: Size) -> Condition:
    return Condition("tp", f"a divisor of {name} = {size_text(value)}", tp, divides, tp, value)


def _heads_divide(tp: Size, kv_heads: Size) -> Any:
    """Whether heads are divided among ranks, or ranks among heads."""
    return divides(tp, kv_heads) | divides(kv_heads, tp)


def _fewer(tp: Size, heads: Size) -> Any:
    return (tp == 1) | (tp < heads)


def _piped(interleave: Size, pp: Size) -> Any:
    return (pp > 1) | (interleave <= 1)


def of_dualpipe(pp: Size, micro_batches: Size | None) -> Iterator[Condition]:
    """What a pipeline that is fed from both ends asks, where there is one; micro_batches: None where not said."""
    yield Condition("pp", "an even number of stages under DualPipe", pp, _paired, pp, 2)
    if micro_batches is not None:
        expected = "an even number under DualPipe, and two for each stage or more"
        yield Condition("micro-batches", expected, micro_batches, _from_both_ends, micro_batches, pp)


def _paired(pp: Size, two: Size) -> Any:
    return (pp == 1) | divides(two, pp)


def _from_both_ends(micro_batches: Size, pp: Size) -> Any:
    return (pp == 1) | ((micro_batches >= 2 * pp) & divides(2, micro_batches))


def _stage_of_zero(zero: Size, last: Size) -> Any:
    return (zero <= last) & (zero % 1 == 0)
