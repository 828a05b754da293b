"""Which operations keep what: the tape of one layer, as a list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from calc.memory.activations import settings
from calc.memory.on_rank import saved_on_rank
from calc.quantities.saved_tensors import LayerSaved, saved_tensors
from calc.sizes import ceil_div
from calc.spec import ModelSpec
from calc.spec.run import Checkpointing, Run
from calc.trace.tape import Saved


class Keeper(NamedTuple):
    """One operation of one layer. layers: how many there are of its kind. op: its path. tensors: what it keeps first
    of all that need it. bytes: on one rank, of one micro-batch."""

    layers: int
    op: str
    tensors: tuple[str, ...]
    bytes: int


def keepers(spec: ModelSpec, run: Run) -> list[Keeper]:
    """What a layer of each kind keeps under the checkpointing asked for, by operation, the one with the most first.

    Nothing under `megatron`, whose closed form knows no operations.
    Errors: Refused for what the tape does not know.
    """
    if run.execution == "megatron" or run.mode != "training":
        return []
    found: dict[tuple[int, str], tuple[tuple[str, ...], int]] = {}
    for path, each in saved_tensors(spec, run.load(), settings(spec, run, run.checkpointing)).layers.items():
        for layers, tensors in _layers(path, each, run, run.checkpointing):
            for saved in tensors:
                own = saved_on_rank(saved, run)
                if own and layers:
                    names, size = found.get((layers, saved.op), ((), 0))
                    found[layers, saved.op] = (*names, f"{saved.role} ({saved.tensor.dtype})"), size + own
    listed = [Keeper(layers, op, tensors, size) for (layers, op), (tensors, size) in found.items()]
    return sorted(listed, key=lambda keeper: -keeper.bytes)


def _layers(
    path: str, each: LayerSaved, run: Run, checkpointing: Checkpointing
) -> Iterator[tuple[int, tuple[Saved, ...]]]:
    """(how many layers, what each keeps): those that are checkpointed, and the others."""
    if checkpointing in ("none", "selective"):
        yield each.count, each.saved
        return
    times = ceil_div(each.count, run.checkpoint_every)
    results = each.results if checkpointing == "selective-op" else ()
    inputs = (Saved(f"{path}.checkpoint", "input of the layer", read) for read in (each.input, *each.carried))
    yield times, (*inputs, *results)
    yield each.count - times, each.saved
