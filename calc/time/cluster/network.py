"""What GPUs tell each other in a step, by what divides the model, and what of it computing hides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

from calc.errors import Refused
from calc.quantities.parameters import parameters
from calc.sizes import Size, at_least, is_array
from calc.spec import ModelSpec, Moe
from calc.spec.run import Run
from calc.time.device.priors import priors
from calc.time.kernels.kernel import Collective, Kernel, Send, width_of
from calc.time.step.formats import number_formats
from calc.time.step.operations import place_of, tree_of
from calc.trace.functions import Attend
from calc.trace.op import Leaf
from calc.trace.shard import VOCABULARY

Hidden = Literal["nothing", "forward", "backward"]


class Held(NamedTuple):
    """Parameters of one rank before ZeRO divides them, those that are trained, and the part of all that stands in
    routed experts where these are spread over ranks."""

    elements: Size
    trained: Size
    experts: float


class Talk(NamedTuple):
    """A collective, and behind which computation it hides as far as that lasts; `once` a step, not each micro-batch."""

    kernel: Kernel
    behind: Hidden
    once: bool = False


def between_ops(spec: ModelSpec, setting: Run) -> Iterator[Kernel]:
    """Every collective within one pass through all layers: for these computing waits. They are the same whatever dp, pp
    and the number of micro-batches are.

    Errors: Refused for groups of ranks beyond a node without the rate of the network between nodes.
    """
    again = setting.checkpointing in ("full", "full-early-stop", "selective-op")
    times = 2 + again if setting.trains else 1
    if setting.tp * setting.cp * setting.ep > 1:
        for leaf in tree_of(spec, setting):
            yield from _of_op(leaf, spec, setting, times)


def between_ranks(spec: ModelSpec, setting: Run, held: Held) -> Iterator[Talk]:
    """What stages of a pipeline, and ranks that hold the same weights, tell each other in a step of training.

    Sizes of the plan and of `held` may be arrays; what some rows do without is then called 0 times there.
    """
    if not setting.trains:
        return
    share = setting.cp * (setting.tp if setting.divides_sequence else 1)
    size = setting.batch * setting.new_tokens * spec.d_model * _width(setting) / share
    span = setting.tp * setting.cp * setting.dp * setting.pp
    calls = at_least(setting.pp, 2) * 2 * setting.interleave
    sent = Talk(_send("pipeline", "send", size, 2, calls, setting, span), "nothing")
    yield from (talk for talk in (sent, *_data(setting, held)) if is_array(talk.kernel.calls) or talk.kernel.calls)


def _width(setting: Run) -> float:
    return max(width_of(number_formats(setting).compute), 2.0)


def _of_op(leaf: Leaf, spec: ModelSpec, setting: Run, times: int) -> Iterator[Kernel]:
    """What follows one op: sums of parts, experts' tokens, keys and values of other ranks."""
    op, calls = leaf.op, float(leaf.calls)
    shard = op.weights[0].shard if op.weights and not leaf.expert else None
    by_rows = shard is not None and shard.axis == 1
    if setting.tp > 1 and (by_rows or shard is VOCABULARY):
        # A tower has rows of its own; of the vocabulary's two ends the stream is what is summed.
        elements = op.outputs[0].elements if by_rows else setting.batch * setting.new_tokens * spec.d_model
        size = float(elements) / setting.cp * _width(setting)
        both: tuple[Collective, ...] = ("all_gather", "reduce_scatter") if setting.divides_sequence else ("all_reduce",)
        own = times if by_rows else 1
        for name in both:
            yield _after(leaf, "tensor", name, size, setting.tp, calls * own, setting)
    if setting.ep > 1 and op.function in ("dispatch", "combine"):
        elements = op.writes if op.function == "dispatch" else op.reads
        size = float(elements) / setting.cp * _width(setting)
        yield _after(leaf, "experts", "all_to_all", size, setting.ep, calls * times, setting)
    if setting.cp > 1 and op.function == "scores" and isinstance(op.shape, Attend):
        # Keys and values of all context-parallel ranks, and going back the sums of their gradients.
        shape = op.shape
        size = shape.groups * shape.keys * (shape.d_head + shape.d_value) * _width(setting) / setting.tp
        yield _after(leaf, "context", "all_gather", size, setting.cp, calls * (2 if setting.trains else 1), setting)
        if setting.trains:
            yield _after(leaf, "context", "reduce_scatter", size, setting.cp, calls, setting)


def _after(leaf: Leaf, name: str, op: Collective, size: float, ranks: int, calls: float, setting: Run) -> Kernel:
    """A collective that follows an op, over `ranks` beside the tensor-parallel ones."""
    span = ranks if name == "tensor" else ranks * setting.tp
    return replace(_send(f"{leaf.path}.{name}", op, size, ranks, calls, setting, span), place=place_of(leaf))


def _data(setting: Run, held: Held) -> Iterator[Talk]:
    """Gradients between ranks that hold the same weights, and weights where ZeRO divides them.

    Sums of gradients hide behind the last backward, weights are gathered while the layer before computes.
    """
    how = number_formats(setting).recipe
    assert how is not None
    span = setting.dp * setting.cp * setting.tp
    divides = at_least(setting.zero, 1)
    often = at_least(setting.zero, 3) * (1 - at_least(setting.pp, 2))
    for name, part, ranks in (
        ("data", 1 - held.experts, setting.dp * setting.cp),
        ("data of experts", held.experts, setting.replicas(True)),
    ):
        several = at_least(ranks, 2) * at_least(part, 1e-12)
        gradients = held.trained * part * width_of(how.gradients)
        weights = held.elements * part * width_of(how.gathered or how.weights)
        ways: tuple[tuple[Collective, Size, Hidden, bool, Size], ...] = (
            ("all_reduce", gradients, "backward", True, 1 - divides),
            ("reduce_scatter", gradients, "backward", True, divides - often),
            ("all_gather", weights, "forward", True, divides - often),
            ("reduce_scatter", gradients, "backward", False, often),
            ("all_gather", weights, "forward", False, often),
            ("all_gather", weights, "backward", False, often),
        )
        for op, size, behind, once, calls in ways:
            yield Talk(_send(name, op, size, ranks, several * calls, setting, span), behind, once)


def expert_share(spec: ModelSpec) -> float:
    """Part of the parameters that stands in routed experts."""
    if not any(isinstance(group.channel, Moe) for group in spec.layers):
        return 0.0
    counted = parameters(spec)
    return float(counted.get("routed_expert", 0)) / float(sum(counted.values()))


def _send(path: str, op: Collective, size: Size, ranks: Size, calls: Size, setting: Run, span: Size) -> Kernel:
    """span: GPUs from the first to the last of the group, ranks numbered tensor first, then context, then data."""
    beyond = span > priors()["network"]["node"]
    if setting.network is None and not any(map(is_array, (beyond, calls))) and beyond and calls:
        node = priors()["network"]["node"]
        expected = f"groups of ranks within a node of {node} GPUs, or --network, the bytes/s of one GPU between nodes"
        raise Refused("plan", expected, f"{path}: {op} over {span} GPUs")
    return Kernel(
        path=path,
        component="network",
        function=op,
        direction="network",
        dtype=number_formats(setting).compute,
        calls=calls * 1.0,
        bytes=size * 1.0,
        shape=Send(op, ranks, size * 1.0, beyond),
    )
