"""Activations: what one rank keeps for backward, under a plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from calc.dtypes import misaligned
from calc.errors import Refused
from calc.memory import megatron
from calc.memory.between_stages import between_stages, pipelined_by_torch
from calc.memory.on_rank import on_rank, saved_on_rank
from calc.memory.rank import NOTHING, Activations, Between
from calc.memory.sharding import Stage
from calc.memory.waiting import Kind, Leaving, if_any, order_of
from calc.quantities.flops import plain_products
from calc.quantities.saved_tensors import LayerSaved, SavedTensors, saved_tensors
from calc.sizes import Size, at_least, ceil_div, either, is_array, is_exactly, largest, minimum
from calc.spec import Lora, ModelSpec
from calc.spec.cache_key import CacheKey
from calc.spec.load import Load
from calc.spec.run import Checkpointing, Run
from calc.spec.run.precision import recipe
from calc.trace.settings import Settings
from calc.trace.tape import Saved, element_bytes


def check_adapter(spec: ModelSpec) -> None:
    """Errors: Refused for an adapter of which it is not known what layers keep beside it in training."""
    if spec.adapter is not None and not isinstance(spec.adapter, Lora):
        raise Refused("adapter", "lora, or none, where activations are counted", type(spec.adapter).__name__)


def settings(spec: ModelSpec, run: Run, checkpointing: Checkpointing) -> Settings:
    """How the tape is to record a plan. Errors: Refused for an adapter of which it is not known what it keeps."""
    how = recipe(run.recipe)
    check_adapter(spec)
    return Settings(
        execution=run.recorded_kernels,
        dtype=how.compute,
        autocast=how.autocast,
        inputs=how.inputs,
        dropout=run.dropout,
        device=run.device,
        recompute=run.changed(checkpointing=checkpointing).again,
        loss_fused=run.fused_loss,
        joins=run.stack is not None and run.stack.joins,
        weighs_activation=run.stack is not None and run.stack.weighs_activation,
        frozen_apart=run.frozen not in (None, "fp32"),
    )


def activations(
    spec: ModelSpec, load: Load, run: Run, checkpointing: Checkpointing, found: Sequence[Stage]
) -> list[Activations]:
    """What the ranks of each stage keep.

    checkpointing: `full` keeps of every `checkpoint_every`-th layer its input alone, and makes the rest again.
    `selective-op` keeps its input and the results of every second product with a weight, and of flash attention.
    Errors: Refused for what the tape or, under `megatron`, the closed form does not know.
    """
    if all(isinstance(n, int) for n in (run.loss_chunks, load.tokens)) and run.loss_chunks > load.tokens:
        raise Refused("loss_chunks", f"at most the {load.tokens:,} tokens of a step", run.loss_chunks)
    if run.execution == "megatron":
        return [megatron.activations(spec, load, run, checkpointing, stage) for stage in found]
    _check(spec, run, checkpointing)
    made = _made(spec, load, settings(spec, run, checkpointing))
    padded = run.fuses and run.stack is None and run.device == "cuda" and _pads(spec, made)
    end = spec.schedule[-1] if spec.schedule else spec.layers[-1].name
    order = order_of(spec, run.layers_on_host)
    return [_on_stage(made, run, checkpointing, stage, padded, end, order) for stage in found]


def _made(spec: ModelSpec, load: Load, how: Settings) -> SavedTensors:
    """What a pass keeps; of whole numbers it is remembered, since very many plans ask for a few passes."""
    sizes = (load.batch, load.seq, load.context, load.source, load.usual_source, load.images, load.document)
    if all(size is None or isinstance(size, int) for size in (*sizes, *(load.image or ()))):
        return _remembered(CacheKey(spec), load, how)
    return saved_tensors(spec, load, how)


@lru_cache(maxsize=64)
def _remembered(model: CacheKey[ModelSpec], load: Load, how: Settings) -> SavedTensors:
    return saved_tensors(model.value, load, how)


def _pads(spec: ModelSpec, made: SavedTensors) -> bool:
    """Whether torch's compiler pads the head's products; of symbols nothing is said."""
    if spec.head is None or made.logits is None:
        return False
    columns = spec.head.columns(spec.vocab_size)
    return isinstance(columns, int) and misaligned(columns, element_bytes(made.logits.dtype))


def _on_stage(
    made: SavedTensors,
    run: Run,
    checkpointing: Checkpointing,
    stage: Stage,
    padded: bool,
    end: str,
    order: Sequence[str],
) -> Activations:
    """What one stage keeps of what the whole model does. padded: whether the head's products are. end: the group of
    the last layer. order: that of each, where what a part of them keeps waits on the host."""
    layers: Size = 0
    here: list[tuple[LayerSaved, Size]] = []
    for each in made.layers.values():
        n, of_kind = each.count, stage.layers.get(each.name)
        ways = [other for other in made.layers.values() if other.name == each.name]
        if of_kind is not None and len(ways) == 1:
            n = of_kind
        elif of_kind is not None:
            n = _of_way(each, of_kind, stage.first, sum(way.count for way in ways[:-1]))
        if is_exactly(n, 0):
            continue
        here.append((each, n))
        layers = layers + _of_layers(each, n, run, checkpointing)
        if run.offload != "activations":
            layers = layers - _counted_outside(each, run, checkpointing)
    again = largest(if_any(n, _again(each, run, checkpointing)) for each, n in here)
    widest = largest(if_any(n, saved_on_rank(saved, run)) for each, n in here for saved in each.whole)
    layers = ceil_div(layers, stage.chunks) * stage.held
    between, there = _between(made, here, run, checkpointing, stage)
    layers = layers - there
    moved: Size = 0
    if run.offload == "activations":
        leaving = _leaving(here, run, checkpointing, end, order)
        moved = leaving.moved
        layers = layers - moved + (leaving.beyond_the_last if run.waits_for_host else leaving.on_its_way)
    outside = _sum(made.common, run)
    outside = outside + either(stage.first, ceil_div(_sum(made.front, run) * stage.held, stage.chunks))
    outside = outside + either(stage.last, _sum(made.end, run))
    logits, scratch, freed = (either(stage.last, size) for size in (_sum(made.loss, run), *_of_loss(made, run, padded)))
    ends: Size = 0
    if run.schedule == "gpipe":
        # The last stage, too, goes forward with all micro-batches first, through the loss of each.
        each = tuple(saved for saved in (*made.end, *made.loss) if saved.tensor.weight is None)
        ends = either(stage.last, (stage.held - 1) * (_sum(each, run) + between.logits))
    freed = freed - minimum(freed, between.logits)
    return Activations(layers, outside, logits, again, widest, scratch, freed, moved, ends, between)


def _between(
    made: SavedTensors, here: Sequence[tuple[LayerSaved, Size]], run: Run, checkpointing: Checkpointing, stage: Stage
) -> tuple[Between, Size]:
    """What torch.distributed.pipelining holds between stages, and what of it is among what layers keep."""
    if not pipelined_by_torch(run):
        return NOTHING, 0
    logits: Size = 0
    if made.logits is not None and made.logits not in {saved.tensor for saved in made.loss}:
        logits = either(stage.last, on_rank(made.logits, run))
    vector = on_rank(list(made.layers.values())[-1].input, run)
    return between_stages(run, stage, vector, _inputs_kept(here, checkpointing), logits)


def _inputs_kept(here: Sequence[tuple[LayerSaved, Size]], checkpointing: Checkpointing) -> Size:
    """Whether all layers of a stage keep what they read."""
    kept: Size = True
    for each, n in here:
        if checkpointing in ("none", "selective") and not each.early:
            lies = each.input in {saved.tensor for saved in each.saved}
            kept = kept & (lies | (n == 0) if is_array(n) else lies)
    return kept


def _leaving(
    here: Sequence[tuple[LayerSaved, Size]],
    run: Run,
    checkpointing: Checkpointing,
    end: str,
    order: Sequence[str],
) -> Leaving:
    """Which layers' activations leave for the host; casts of weights are none of what a layer makes, and stay."""
    kinds = [Kind(layer.name, layer.count, n, _crosses(layer, run, checkpointing)) for layer, n in here]
    return Leaving(kinds, end, run.layers_on_host, order)


def _crosses(each: LayerSaved, run: Run, checkpointing: Checkpointing) -> Size:
    """What one layer keeps beside casts of weights."""
    casts = _sum(tuple(saved for saved in each.saved if saved.tensor.weight is not None), run)
    whole = checkpointing in ("none", "selective")
    return _of_layers(each, 1, run, checkpointing) - (casts if whole else 0)


def _of_way(each: LayerSaved, layers: Size, first: Size, early: Size) -> Size:
    """How many of a stage's `layers` of a kind are passed as this one. early: those at the model's start whose input
    needs less of a gradient than that of the others, all of them on the first stage."""
    if each.early:
        return either(first, each.count)
    return layers - either(first, early)


def _check(spec: ModelSpec, run: Run, checkpointing: Checkpointing) -> None:
    if checkpointing == "selective-op":
        plain_products(spec)
        if not is_exactly(run.tp, 1):
            raise Refused("tp", "1 under selective-op, of which it is not written down which sums it keeps", run.tp)


def _of_layers(each: LayerSaved, n: Size, run: Run, checkpointing: Checkpointing) -> Size:
    """What `n` layers keep."""
    if checkpointing in ("none", "selective"):
        return n * _sum(each.saved, run)
    checkpointed = sum((on_rank(read, run) for read in (each.input, *each.carried)), start=0)
    if checkpointing == "selective-op":
        checkpointed = checkpointed + _sum(each.results, run)
    if is_exactly(run.checkpoint_every, 1):
        return n * checkpointed
    times = ceil_div(n, run.checkpoint_every)
    return times * checkpointed + (n - times) * _sum(each.saved, run)


def _counted_outside(each: LayerSaved, run: Run, checkpointing: Checkpointing) -> Size:
    """Of what checkpointing keeps of the first layer of a kind, what is kept outside of layers too, as one tensor."""
    if checkpointing in ("none", "selective"):
        return 0
    return sum((on_rank(read, run) for read in each.outside), start=0)


def _again(each: LayerSaved, run: Run, checkpointing: Checkpointing) -> Size:
    """What backward of one layer makes anew."""
    if checkpointing in ("none", "selective"):
        return 0 if each.saved is each.whole else _sum(each.whole, run) - _sum(each.saved, run)
    there = {each.input, *each.carried}
    if checkpointing == "selective-op":
        there |= {saved.tensor for saved in each.results}
    return _sum(tuple(saved for saved in each.whole if saved.tensor not in there), run)


def _of_loss(made: SavedTensors, run: Run, padded: bool) -> tuple[Size, Size]:
    """(what the loss takes beyond its log-probabilities when it takes the most, the logits where they are freed).

    That is the first step of backward: PyTorch makes two gradients in the format of the loss, of the log-probabilities
    and of the logits. With the vocabulary over tensor-parallel ranks it makes three (torch.distributed.tensor.parallel
    .loss_parallel: zeros, probabilities and their sum). Nobody is taken to hold the logits themselves any longer. A
    fused loss works in the logits' place; where the compiler pads, two copies are beside it, of the logits and of their
    gradient.
    """
    if made.logits is None or not made.loss:
        return 0, 0
    if run.fused_loss or (run.fused_loss is None and run.fuses):
        return 2 * on_rank(made.logits, run) if padded and run.fused_loss is None else 0, 0
    log_probabilities = made.loss[0].tensor
    copies = 2 if is_exactly(run.tp, 1) else 2 + at_least(run.tp, 2)
    freed = 0 if made.logits.dtype == log_probabilities.dtype else on_rank(made.logits, run)
    return copies * on_rank(log_probabilities, run), freed


def _sum(tensors: tuple[Saved, ...], run: Run) -> Size:
    total: Size = 0
    for saved in tensors:
        total = total + saved_on_rank(saved, run)
    return total
