"""What keeping layers' activations, or updating weights, on the host asks of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calc.errors import Refused
from calc.memory.condition import Condition
from calc.sizes import Size, is_exactly
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.spec.stack import load_stack, stack_names
from calc.spec.traced import Traced

WITH = "with --offload activations"


def of_activations_on_host(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Every condition on it. Errors: Refused for what is not described."""
    if isinstance(spec, Traced) or spec.towers:
        found = "a traced model" if isinstance(spec, Traced) else "towers"
        raise Refused("model", f"one stack of layers that are described {WITH}", found)
    if run.execution in ("graph", "megatron"):
        raise Refused("execution", f"eager, sdpa or compiled {WITH}", run.execution)
    if not is_exactly(run.checkpoint_every, 1):
        raise Refused("checkpoint_every", f"1 {WITH}: the layers are to be alike", run.checkpoint_every)
    if run.offload_fraction != 1:
        raise Refused("offload_fraction", f"1 {WITH}, of which --offload-layers is a part", run.offload_fraction)
    if run.usual_graphs != "none":
        raise Refused("graphs", f"none {WITH}, whose copies no graph holds", run.usual_graphs)
    part = run.layers_on_host
    if part is not None and (not isinstance(part, int) or not 1 <= part < spec.n_layers):
        raise Refused("offload_layers", f"1 to {spec.n_layers - 1}, all layers but the last", part)
    if run.stack is not None:
        its = run.stack.activations_on_host
        if its is None:
            known = [name for name in stack_names() if load_stack(name).activations_on_host is not None]
            raise Refused("stack", f"{WITH} one of {', '.join(known)}, or none", run.stack.name)
        if part is not None and not its.part:
            raise Refused("offload_layers", f"none under {run.stack.name}, which keeps the last layer alone", part)
        if run.checkpointing not in its.checkpointing:
            expected = f"{' or '.join(its.checkpointing)} under {run.stack.name} {WITH}"
            raise Refused("checkpointing", expected, run.checkpointing)
        if run.recompute:
            raise Refused("recompute", f"none under {run.stack.name} {WITH}", ", ".join(run.recompute))
    # Where micro-batches are in flight it is not described when each crosses.
    yield Condition("offload", "none or optimizer in a pipeline", run.offload, _alone, run.pp, 1)


def of_optimizer_on_host(run: Run) -> Iterator[Condition]:
    """What updating weights on the host asks of a run. Errors: Refused for what is not described."""
    if run.usual_optimizer != "adamw":
        expected = "adamw with --offload optimizer: what others keep there is not described"
        raise Refused("optimizer", expected, run.usual_optimizer)
    how = run.precision
    if how.updated != "fp32":
        raise Refused("recipe", "one that updates weights in fp32 with --offload optimizer", run.recipe)
    if run.stack is None:
        return
    its = run.stack.offload
    if its is None:
        known = [name for name in stack_names() if load_stack(name).offload is not None]
        raise Refused("stack", f"with --offload optimizer one of {', '.join(known)}, or none", run.stack.name)
    expected = f"{' or '.join(map(str, its.zero))} under {run.stack.name} with --offload optimizer"

    def known_stage(zero: Size, ranks: Size) -> Any:
        found = ranks <= 1  # which have nothing to divide
        for stage in its.zero:
            found = found | (zero == stage)
        return found

    yield Condition("zero", expected, run.zero, known_stage, run.zero, run.sharing)


def _alone(stages: Size, one: Size) -> Any:
    return stages == one
