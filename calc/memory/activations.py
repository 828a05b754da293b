"""Activations: what one rank keeps for backward, under a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calc.blocks.attention import head_sizes
from calc.errors import Refused
from calc.load import Load
from calc.memory import megatron
from calc.memory.sharding import Stage, cast_on_rank
from calc.quantities.flops import plain_products
from calc.saved.model import FIRST, Kept, LayerKept, kept
from calc.saved.settings import Execution as Recorded
from calc.saved.settings import Settings
from calc.saved.tape import Saved, Tensor
from calc.sizes import Size, at_least, ceil_div, largest, minimum
from calc.spec import Attention, Lora, ModelSpec
from calc.spec.run import Checkpointing, Run
from calc.spec.run.precision import recipe


@dataclass(frozen=True, slots=True)
class Activations:
    """Bytes on one rank.

    layers: of all layers, micro-batches in flight included. outside: of embeddings and final norm. logits: of the
    loss. again: the most that one layer makes anew in backward. widest: the largest single tensor of a layer.
    scratch: what the loss takes for a moment beyond what is kept. freed: the logits themselves, where a wider copy of
    them takes over; nothing that backward of the loss makes fits in their place.
    """

    layers: Size
    outside: Size
    logits: Size
    again: Size
    widest: Size
    scratch: Size
    freed: Size

    @property
    def total(self) -> Size:
        return self.layers + self.outside


def settings(spec: ModelSpec, plan: Run, checkpointing: Checkpointing) -> Settings:
    """How the tape is to record a plan. Errors: Refused for an adapter of which it is not known what it keeps."""
    how = recipe(plan.recipe)
    recompute = frozenset(plan.recompute) | ({"attention"} if checkpointing == "selective" else frozenset())
    lora: Mapping[str, Size] = {}
    if isinstance(spec.adapter, Lora):
        lora = dict.fromkeys(spec.adapter.targets, spec.adapter.rank)
    elif spec.adapter is not None:
        raise Refused("adapter", "lora, or none, where activations are counted", type(spec.adapter).__name__)
    return Settings(
        execution=_as_recorded(plan),
        dtype=how.compute,
        autocast=how.autocast,
        inputs=how.inputs,
        dropout=plan.dropout,
        device=plan.device,
        recompute=recompute,
        lora=lora,
        frozen=spec.adapter is not None,
        loss_fused=plan.fused_loss,
    )


def _as_recorded(plan: Run) -> Recorded:
    """The execution in the tape's words: a graph keeps what was compiled, and attention is one kernel unless told."""
    if plan.fuses:
        return "fused"
    return "eager" if plan.execution == "eager" else "sdpa"


def activations(
    spec: ModelSpec, load: Load, plan: Run, checkpointing: Checkpointing, found: Sequence[Stage]
) -> list[Activations]:
    """What the ranks of each stage keep.

    checkpointing: `full` keeps of every `checkpoint_every`-th layer its input alone, and makes the rest again.
    `selective-op` keeps its input and the results of every second product with a weight, and of flash attention.
    Errors: Refused for what the tape or, under `megatron`, the closed form does not know.
    """
    if all(isinstance(n, int) for n in (plan.loss_chunks, load.tokens)) and plan.loss_chunks > load.tokens:
        raise Refused("loss_chunks", f"at most the {load.tokens:,} tokens of a step", plan.loss_chunks)
    if plan.execution == "megatron":
        return [megatron.activations(spec, load, plan, checkpointing, stage) for stage in found]
    _check(spec, plan, checkpointing)
    made = kept(spec, load, settings(spec, plan, checkpointing))
    heads = {path: heads_of(spec, path, each) for path, each in made.layers.items()}
    return [_on_stage(made, plan, checkpointing, stage, heads) for stage in found]


def _on_stage(
    made: Kept, plan: Run, checkpointing: Checkpointing, stage: Stage, heads: Mapping[str, Heads]
) -> Activations:
    """What one stage keeps of what the whole model does."""
    layers: Size = 0
    here: list[tuple[LayerKept, Heads]] = []
    for path, each in made.layers.items():
        if each.first:
            continue
        own = heads[path]
        first = made.layers.get(path + FIRST)
        n = stage.layers.get(path, each.count if first is None else each.count + 1)
        if isinstance(n, int) and n == 0:
            continue
        here.append((each, own))
        layers = layers + _of_layers(each, n, plan, own, checkpointing)
        if first is not None and stage.first:
            here.append((first, own))
            less = _of_layers(each, 1, plan, own, checkpointing)
            layers = layers + _of_layers(first, 1, plan, own, checkpointing) - less
    again = largest(_again(each, plan, own, checkpointing) for each, own in here)
    widest = largest(kept_on_rank(saved, plan, own) for each, own in here for saved in each.whole)
    layers = ceil_div(layers, stage.chunks)
    outside = _sum(made.common, plan)
    if stage.first:
        outside = outside + ceil_div(_sum(made.front, plan) * stage.held, stage.chunks)
    if stage.last:
        outside = outside + _sum(made.end, plan)
    logits = _sum(made.loss, plan) if stage.last else 0
    scratch, freed = _of_loss(made, plan) if stage.last else (0, 0)
    return Activations(layers * stage.held, outside, logits, again, widest, scratch, freed)


@dataclass(frozen=True, slots=True)
class Heads:
    """(heads, heads of keys, width of a query, width of a value) of a layer's mixer and of its cross-attention."""

    mixer: tuple[Size, Size, Size, Size] = (1, 1, 1, 1)
    cross: tuple[Size, Size, Size, Size] = (1, 1, 1, 1)

    def of(self, op: str) -> tuple[Size, Size, Size, Size]:
        """Those of the block that `op` stands in."""
        return self.cross if ".cross." in op else self.mixer


NO_HEADS = Heads()
"""Outside layers nothing is divided by heads."""


def heads_of(spec: ModelSpec, path: str, each: LayerKept) -> Heads:
    """Heads of the attention of a layer of the kind that is kept under `path`."""
    stack = next((tower for tower in spec.towers if path.startswith(f"{tower.name}.")), spec)
    group = each.group
    mixer = head_sizes(group.mixer, stack.d_model) if isinstance(group.mixer, Attention) else Heads().mixer
    return Heads(mixer) if group.cross is None else Heads(mixer, head_sizes(group.cross, stack.d_model))


def on_rank(tensor: Tensor, plan: Run, kv_heads: Size = 1) -> Size:
    """Bytes of a tensor on one of the tensor- and context-parallel ranks."""
    ranks: Size = plan.cp
    if isinstance(plan.tp, int) and plan.tp == 1:
        return ceil_div(tensor.bytes, ranks)
    if tensor.split in ("tensor", "vocab") or (tensor.split == "stream" and plan.divides_sequence):
        ranks = ranks * plan.tp
    elif tensor.split == "kv":
        ranks = ranks * minimum(plan.tp, kv_heads)
    return ceil_div(tensor.bytes, ranks)


def kept_on_rank(saved: Saved, plan: Run, heads: Heads = NO_HEADS) -> Size:
    """Bytes of what is kept on one rank.

    Autocast's cast of a weight is as large on every context-parallel rank, and else divided as the weight is. What an
    adapter leaves in another format than fp32 is not cast.
    """
    own = heads.of(saved.op)
    if saved.role != "cast weight":
        return on_rank(saved.tensor, plan, own[1])
    if plan.frozen not in (None, "fp32"):
        return 0
    size = saved.tensor.bytes
    if ".experts." in saved.op:
        size = ceil_div(size, plan.ep)
    if isinstance(plan.tp, int) and plan.tp == 1:
        return size
    return cast_on_rank(saved.op, size, saved.tensor.split == "vocab", own, plan.tp)


def _check(spec: ModelSpec, plan: Run, checkpointing: Checkpointing) -> None:
    if checkpointing == "selective-op":
        plain_products(spec)
        if not (isinstance(plan.tp, int) and plan.tp == 1):
            raise Refused("tp", "1 under selective-op, of which it is not written down which sums it keeps", plan.tp)


def _of_layers(each: LayerKept, n: Size, plan: Run, heads: Heads, checkpointing: Checkpointing) -> Size:
    """What `n` layers keep."""
    if checkpointing in ("full", "full-early-stop"):
        checkpointed = on_rank(each.input, plan)
    elif checkpointing == "selective-op":
        checkpointed = on_rank(each.input, plan) + _sum(each.results, plan, heads)
    else:
        return n * _sum(each.kept, plan, heads)
    if isinstance(plan.checkpoint_every, int) and plan.checkpoint_every == 1:
        return n * checkpointed
    times = ceil_div(n, plan.checkpoint_every)
    return times * checkpointed + (n - times) * _sum(each.kept, plan, heads)


def _again(each: LayerKept, plan: Run, heads: Heads, checkpointing: Checkpointing) -> Size:
    """What backward of one layer makes anew."""
    if checkpointing in ("none", "selective"):
        return 0 if each.kept is each.whole else _sum(each.whole, plan, heads) - _sum(each.kept, plan, heads)
    there = {each.input}
    if checkpointing == "selective-op":
        there |= {saved.tensor for saved in each.results}
    return _sum(tuple(saved for saved in each.whole if saved.tensor not in there), plan, heads)


def _of_loss(made: Kept, plan: Run) -> tuple[Size, Size]:
    """(what the loss takes beyond its log-probabilities when it takes the most, the logits where they are freed).

    That is the first step of backward: PyTorch makes two gradients in the format of the loss, of the log-probabilities
    and of the logits. With the vocabulary over tensor-parallel ranks it makes three (torch.distributed.tensor.parallel
    .loss_parallel: zeros, probabilities and their sum). Nobody is taken to hold the logits themselves any longer. A
    fused loss works in the logits' place.
    """
    if made.logits is None or not made.loss:
        return 0, 0
    if plan.fused_loss or (plan.fused_loss is None and plan.fuses):
        return 0, 0
    log_probabilities = made.loss[0].tensor
    copies = 2 if isinstance(plan.tp, int) and plan.tp == 1 else 2 + at_least(plan.tp, 2)
    freed = 0 if made.logits.dtype == log_probabilities.dtype else on_rank(made.logits, plan)
    return copies * on_rank(log_probabilities, plan), freed


def _sum(tensors: tuple[Saved, ...], plan: Run, heads: Heads = NO_HEADS) -> Size:
    total: Size = 0
    for saved in tensors:
        total = total + kept_on_rank(saved, plan, heads)
    return total
