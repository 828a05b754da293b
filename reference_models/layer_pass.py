"""A pass through one layer, whose inner tensors may be computed again going back."""

from __future__ import annotations

import torch
from torch import Tensor

from reference_models.cache import LayerCache
from reference_models.layer import Layer
from reference_models.step import Step, recomputed


def run_layer(layer: Layer, x: Tensor, step: Step, mixer: LayerCache | None, cross: LayerCache | None) -> Tensor:
    """One layer, whose inner tensors are computed again going back where `step.checkpointing` says so.

    Errors: ValueError for that beside a cache, which running again would fill twice.
    """
    late: Tensor | None = None if step.lent is None else step.lent.pop("late", (None,))[0]
    if step.checkpointing not in ("full", "full-early-stop"):
        return layer(x, step, mixer, cross, late)
    if mixer is not None or cross is not None:
        raise ValueError(f"checkpointing: expected none or selective beside a cache, found {step.checkpointing}")
    if torch.compiler.is_compiling():
        # The compiler takes no function that leaves something behind; what blocks record is for eager runs.
        if late is not None or layer.lends_late:
            raise ValueError("checkpointing: expected none where it is compiled and what experts give is added later")
        return recomputed(lambda x: layer(x, step.fresh()), x)
    own: list[Step] = []
    before = step.fresh()
    # What a router reads of the layer before is an input of the layer, as in transformers.
    carried = (step.lent or {}).get("router", ())
    unhalved = None if step.blocks is None else step.blocks.unhalved

    def run(x: Tensor, late: Tensor | None, unhalved: Tensor | None, *carried: Tensor) -> Tensor:
        own.append(before.fresh())
        if carried and own[-1].lent is not None:
            own[-1].lent["router"] = carried
        return layer(x, own[-1], late=late)

    x = recomputed(run, x, late, unhalved, *carried, early_stop=step.checkpointing == "full-early-stop")
    step.take(own[0])
    return x
