"""What stands ahead of a group of layers: what makes their vectors fewer, shorter, wider or as many as before."""

from __future__ import annotations

from calc.blocks.byte_patches import patched, unpatched
from calc.blocks.conformer import shortened
from calc.blocks.halving import halved, upsampled
from calc.blocks.surroundings import Surroundings
from calc.blocks.tiles import between
from calc.blocks.windows import merged
from calc.spec import LayerGroup, Stack, Tiles
from calc.spec.load import Load
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def ahead(t: Trace, spec: Stack, group: LayerGroup, x: Tensor, load: Load, around: Surroundings) -> tuple[Tensor, Load]:
    """x as that group of layers reads it, which may be a second stage or read fewer vectors, and the load of it."""
    if group.merge is not None:
        around.ends.append((x, around.grid))
        return merged(t, group.name, group.merge, x, load, around)
    if group.shortened is not None:
        return shortened(t, group, group.shortened, x, load, around)
    if group.halved is not None:
        return halved(t, group.name, group.halved, x, load, around)
    if group.upsampled:
        return upsampled(t, group.name, x, load, around)
    if group.patched is not None:
        return patched(t, group.name, group.patched, x, load, around)
    if group.unpatched is not None:
        return unpatched(t, group.name, group.unpatched, x, load, around)
    stages = spec.stages if group.name == spec.layers[-1].name else None
    if stages is None or not isinstance(spec.embedding, Tiles):
        return x, load
    return between(t, stages, spec.embedding, x, load), load
