"""What one rank holds: which layers its pipeline stage has, and which part of every weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calc.errors import Refused
from calc.memory.stage_lengths import further_modules, stage_lengths
from calc.sizes import Size, at_least, ceil_div, either, floor_div, is_array, is_exactly, maximum, minimum
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.trace.op import Weight

ENDS_FED = 2
"""Ends of a pipeline at which DualPipe feeds it, and so stages that each of its ranks holds."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One rank of the pipeline. layers: how many of each group. chunks: in how many pieces it holds them. stages: of
    the model, of which each micro-batch passes one; two under DualPipe, whose layers are together in `layers`.

    held: chunks of one micro-batch whose activations it keeps when it keeps the most. count: stages of the
    pipeline that are like it, where kinds of stages are told. first, last: 1 and 0 in
    columns of very many stages (`calc.memory.stage_columns`).
    """

    name: str
    layers: Mapping[str, Size]
    first: Size = True
    last: Size = True
    chunks: Size = 1
    held: Size = 1
    count: Size = 1
    stages: Size = 1


def stages(spec: ModelSpec, run: Run) -> list[Stage]:
    """The kinds of pipeline ranks there are; one where there is no pipeline.

    Interleaved (1F1B with `interleave` chunks a rank), rank i begins with 2 (pp - i - 1) + (interleave - 1) pp chunks
    before its first backward, plus the one it is at (Narayanan et al. 2021, arXiv:2104.04473, section 2.2).
    Errors: Refused for stages that do not add up (`calc.memory.conditions` has what cannot be cut between layers).
    """
    counts = {group.name: group.count for group in spec.layers}
    if is_exactly(run.pp, 1):
        if run.stages is not None and run.stages != (spec.n_layers,):
            raise Refused("stages", "none without a pipeline", ",".join(map(str, run.stages)))
        return [Stage("all", counts)]
    if not isinstance(run.pp, int):
        raise Refused("pp", "one whole number", run.pp)
    if not all(isinstance(n, int) for n in counts.values()):
        return _open_stages(spec, run)
    order = spec.schedule or tuple(group.name for group in spec.layers for _ in range(group.count))
    found, start = [], 0
    lengths = stage_lengths(len(order), run.pp, run.interleave, further_modules(spec, run), run.stages)
    for i, length in enumerate(lengths):
        own = order[start : start + length]
        start += length
        name = "first" if i == 0 else "last" if i == run.pp - 1 else f"stage {i}"
        layers = {group: own.count(group) for group in counts}
        found.append(Stage(name, layers, i == 0, i == run.pp - 1, run.interleave, held_chunks(run, i)))
    return found


def held_stages(spec: ModelSpec, run: Run) -> list[Stage]:
    """What each kind of pipeline rank holds: its stage, and under DualPipe, which feeds a pipeline from both ends, the
    one as far from the other end too, and activations of pp + 1 pieces (DeepSeek-V3, arXiv:2412.19437, table 2).

    Errors: Refused as `stages`, and for DualPipe where the number of layers is an array or a symbol.
    """
    found = stages(spec, run)
    if run.schedule != "dualpipe" or len(found) == 1:
        return found
    if len(found) != run.pp:
        raise Refused("schedule", "another where the number of layers is an array or a symbol", run.schedule)
    pieces = held_chunks(run, 0)
    return [
        Stage(
            f"{one.name} and {other.name}",
            _sum(one.layers, other.layers),
            i == 0,
            i == 0,
            ENDS_FED,
            pieces,
            ENDS_FED,
            ENDS_FED,
        )
        for i, (one, other) in enumerate(zip(found[: len(found) // 2], reversed(found), strict=False))
    ]


def _sum(one: Mapping[str, Size], other: Mapping[str, Size]) -> dict[str, Size]:
    return {name: n + other[name] for name, n in one.items()}


def _open_stages(spec: ModelSpec, run: Run) -> list[Stage]:
    """First and last rank where the number of layers is an array or a symbol, of a model whose layers are all alike.

    Ranks between hold no more than the first.
    """
    if len(spec.layers) > 1:
        raise Refused("pp", "1 for layers of several kinds whose numbers are arrays or symbols", run.pp)
    if run.stages is not None:
        raise Refused("stages", "none where the number of layers is an array or a symbol", "some")
    group = next(iter(spec.layers))
    layers = {group.name: ceil_div(group.count, run.pp)}
    return [
        Stage("first", layers, True, False, run.interleave, held_chunks(run, 0)),
        Stage("last", layers, False, True, run.interleave, held_chunks(run, run.pp - 1)),
    ]


def held_chunks(run: Run, rank: Size) -> Size:
    """Chunks of micro-batches in flight on a pipeline rank; without micro_batches, as many as fill the pipeline.

    GPipe goes forward with all of them first; a zero-bubble schedule holds as many as one forward and one back, and
    DualPipe one more than there are stages (DeepSeek-V3, arXiv:2412.19437, table 2).
    """
    pieces = run.interleave
    if run.schedule == "dualpipe":
        held = run.pp + at_least(run.pp, 2)
        return held if run.micro_batches is None else minimum(held, run.micro_batches)
    if run.schedule == "gpipe":
        return 1 + (run.micro_batches_a_step * pieces - 1) * at_least(run.pp, 2)
    one = pieces == 1 if is_array(pieces) else is_exactly(pieces, 1)
    held = either(one, run.pp - rank, 2 * (run.pp - rank - 1) + (pieces - 1) * in_a_round(run) + 1)
    return held if run.micro_batches is None else minimum(held, run.micro_batches * run.interleave)


def in_a_round(run: Run) -> Size:
    """Micro-batches with which an interleaved schedule goes through one piece before the next: as many as there are
    stages, or of numbers that these do not divide, more, so that rounds are alike (torch.distributed.pipelining,
    ScheduleInterleaved1F1B: n_microbatches // max(1, n_microbatches // pp_group_size))."""
    if run.micro_batches is None:
        return run.pp
    return floor_div(run.micro_batches, maximum(1, floor_div(run.micro_batches, run.pp)))


def held_elements(weight: Weight, run: Run, expert: bool = False) -> Size:
    """Elements of one copy of `weight` that a tensor-parallel rank holds, the rank with the most where they differ.
    expert: whether it is a routed expert's.

    As Megatron-LM splits them (Shoeybi et al. 2019, arXiv:1909.08053, section 3): a block's first matrices by rows of
    [out, in], its last by columns, the token table and the head by rows of the vocabulary. Norms, routers, positions
    and the biases of last matrices stand whole on every rank. Heads of keys are shared by ranks where tp exceeds them.
    """
    ranks = run.expert_pieces if expert else run.tp
    if weight.shard is None or is_exactly(ranks, 1):
        return weight.elements
    return weight.shard.elements(weight.shape, ranks)
