"""What a stack in stages, of ever fewer and wider vectors of a picture's patches, or ever fewer of a sound's, must be
like."""

from __future__ import annotations

from calc.errors import Refused
from calc.spec.audio import Frames
from calc.spec.patches import Patches
from calc.spec.stack_fields import StackFields
from calc.spec.tiles import Tiles
from calc.spec.windows import WindowAttention


def in_stages(stack: StackFields) -> None:
    merges = any(group.merge is not None for group in stack.layers)
    windows = any(isinstance(mixer, WindowAttention) for group in stack.layers for mixer in group.mixers)
    if not merges and not windows:
        return
    front = stack.embedding
    if not isinstance(front, Patches) or front.n_special or front.n_registers or front.masked is not None:
        raise Refused("mixer", "windows of patches, or merged ones, where patches alone are read", front.kind)
    if stack.pool is not None or stack.per_layer is not None or stack.n_streams or stack.altup or stack.layers[0].merge:
        raise Refused("layers", "one stream, merged ahead of later groups alone, and no pool", "others")
    stages = list(stack.stages_of_groups.values())
    first = {stage: list(stack.stages_of_groups)[stages.index(stage)] for stage in stages}
    names = stack.schedule or ()
    order = [stack.stages_of_groups[name] for name in names]
    if order != sorted(order) or any(names[order.index(stage)] != first[stage] for stage in set(order)):
        raise Refused("schedule", "one stage behind another, each begun by the group that merges", "another order")
    for name, width in stack.widths.items():
        mixer = next(group.mixer for group in stack.layers if group.name == name)
        if isinstance(mixer, WindowAttention) and width % mixer.n_heads:
            raise Refused("n_heads", f"a divisor of the width {width} of {name}", mixer.n_heads)


def shorter(stack: StackFields) -> None:
    steps = [group.shortened for group in stack.layers if group.shortened is not None]
    if not steps:
        return
    plain = (stack.schedule, stack.per_layer, stack.n_streams, stack.altup, stack.pool, stack.relative_bias)
    if any(each is not None for each in plain) or not isinstance(stack.embedding, Frames):
        raise Refused("shortened", "none, unless frames are read by plain layers, one group behind another", "some")
    for each in steps:
        mixer = each.attention
        if mixer.causal or mixer.kv != "own" or mixer.position != "none" or mixer.fused or mixer.window is not None:
            raise Refused(
                "shortened.attention", "all steps, by queries and keys of their own that do not turn", "other"
            )
        if mixer.d_head is None and stack.d_model % mixer.n_heads:
            raise Refused("n_heads", f"a divisor of d_model = {stack.d_model}", mixer.n_heads)


def mapped(stack: StackFields) -> None:
    if stack.pyramid is None:
        return
    stages = len(stack.stage_widths)
    if stages < 2 or stack.heads or stack.final_norm is not None:
        raise Refused("pyramid", "null, but behind several stages without a norm or heads", f"{stages} stages")
    wholly = [getattr(group.merge, "stride", 0) == 2 for group in stack.layers if group.merge is not None]
    for each in stack.pyramid.top_down:
        if not 0 <= each < stages - 1 or not wholly[each]:
            raise Refused("pyramid.top_down", "numbers of stages with one half as large behind them", each)


def masked(stack: StackFields) -> None:
    """Masks are made of the maps of three stages, each twice as fine as the next, or of one map."""
    spec, of_maps = stack.mask_decoder, stack.pyramid or stack.neck
    if stack.neck is not None and (not isinstance(stack.embedding, Patches) or stack.pyramid or stack.final_norm):
        raise Refused(
            "neck", "null, but behind layers over patches, without other maps or a norm", stack.embedding.kind
        )
    if spec is None:
        return
    halves = [getattr(group.merge, "stride", 0) for group in stack.layers if group.merge is not None][:2]
    if of_maps is None or (halves == [2, 2] and stack.pyramid is not None) is not spec.maps:
        expected = "null, but behind maps of three stages, each half as large as the last, or a neck and without maps"
        raise Refused("mask_decoder", expected, "others")
    width = of_maps.d_out
    if width % 8 or width % (spec.narrowing * spec.n_heads):
        expected = f"a multiple of 8, and of narrowing * n_heads = {spec.narrowing * spec.n_heads}"
        raise Refused("pyramid.d_out" if stack.pyramid else "neck.d_out", expected, width)


def tiled(stack: StackFields) -> None:
    """Pictures in tiles pass two stages of layers."""
    kind, stages = stack.embedding.kind, stack.stages
    if isinstance(stack.embedding, Tiles) is not (stages is not None):
        raise Refused("stages", "two, behind an embedding of kind tiles and no other", kind)
    if stages is None:
        return
    if len(stack.layers) != 2 or stack.schedule is not None or stack.final_norm or stack.heads:
        raise Refused("stages", "two groups of layers, and no norm or heads behind them", "others")
    first = stack.layers[0].count
    if isinstance(first, int) and not all(0 <= each < first for each in stages.beside):
        raise Refused("stages.beside", f"numbers of the first stage's {first} layers", "others")
