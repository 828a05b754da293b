"""What stands between groups of layers: merged patches of pictures, bytes that become patches and bytes again, shorter
sequences, texts that are halved."""

from __future__ import annotations

from torch import nn

from calc.spec import FunnelAttention, Stack
from reference_models.blocks.byte_patches import IntoPatches, OutOfPatches
from reference_models.blocks.funnel import Halving, Upsampling
from reference_models.blocks.shortened import ShorterSequence
from reference_models.blocks.windows import merging


def ahead_of_groups(spec: Stack) -> nn.ModuleDict:
    """Group name -> the module whose vectors, fewer, wider or as many as before, its first layer reads."""
    made, width, halvings = nn.ModuleDict(), spec.d_model, 0
    for group, length in zip(spec.layers, spec.patch_lengths, strict=True):
        if group.merge is not None:
            made[group.name] = merging(group.merge, width)
        elif group.shortened is not None:
            made[group.name] = ShorterSequence(group.shortened, group.norm, width)
        elif group.halved is not None and isinstance(group.mixer, FunnelAttention):
            made[group.name] = Halving(group.halved, unhalved=group.mixer.unhalved)
            halvings += 1
        elif group.upsampled and isinstance(group.mixer, FunnelAttention):
            made[group.name] = Upsampling(group.mixer, halvings)
        elif group.patched is not None:
            made[group.name] = IntoPatches(group.patched, width)
        elif group.unpatched is not None and length is not None:
            made[group.name] = OutOfPatches(group.unpatched, length, width, spec.d_model)
        width = spec.widths[group.name]
    return made
