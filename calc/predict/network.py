"""What GPUs tell each other in a step, by what divides the model, and what of it computing hides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from calc.errors import Refused
from calc.memory.sharding import Stage
from calc.memory.states import states
from calc.predict.formats import number_formats
from calc.predict.kernel import Collective, Kernel, Send, width_of
from calc.predict.operations import tree_of
from calc.predict.priors import priors
from calc.predict.share import share_of
from calc.quantities.parameters import parameters
from calc.spec import ModelSpec, Moe
from calc.spec.run import Run
from calc.trace.functions import Attend
from calc.trace.op import Leaf
from calc.trace.shard import VOCABULARY

Hidden = Literal["nothing", "forward", "backward"]


class Talk(NamedTuple):
    """A collective, and behind which computation it hides as far as that lasts; `once` a step, not each micro-batch."""

    kernel: Kernel
    behind: Hidden
    once: bool = False


def talks(spec: ModelSpec, setting: Run, stage: Stage) -> Iterator[Talk]:
    """Every collective of one rank of a pipeline stage.

    Errors: Refused for groups of ranks beyond a node without the rate of the network between nodes.
    """
    again = setting.checkpointing in ("full", "full-early-stop", "selective-op")
    times = 2 + again if setting.trains else 1
    if setting.tp * setting.cp * setting.ep > 1:
        for leaf in tree_of(spec, setting):
            yield from _of_op(leaf, spec, setting, stage, times)
    if setting.pp > 1 and setting.trains:
        share = setting.cp * (setting.tp if setting.divides_sequence else 1)
        size = setting.batch * setting.new_tokens * spec.d_model * _width(setting) / share
        span = setting.tp * setting.cp * setting.dp * setting.pp
        yield Talk(_send("pipeline", "send", size, 2, 2 * setting.interleave, setting, span), "nothing")
    if setting.dp * setting.cp > 1 and setting.trains:
        yield from _data(spec, setting, stage)


def _width(setting: Run) -> float:
    return max(width_of(number_formats(setting).compute), 2.0)


def _of_op(leaf: Leaf, spec: ModelSpec, setting: Run, stage: Stage, times: int) -> Iterator[Talk]:
    """What follows one op: sums of parts, experts' tokens, keys and values of other ranks."""
    op = leaf.op
    calls = float(leaf.calls) * share_of(leaf, spec, setting, stage, setting.batch).calls
    if not calls:
        return
    shard = op.weights[0].shard if op.weights and not leaf.expert else None
    by_rows = shard is not None and shard.axis == 1
    if setting.tp > 1 and (by_rows or shard is VOCABULARY):
        # A tower has rows of its own; of the vocabulary's two ends the stream is what is summed.
        elements = op.outputs[0].elements if by_rows else setting.batch * setting.new_tokens * spec.d_model
        size = float(elements) / setting.cp * _width(setting)
        both: tuple[Collective, ...] = ("all_gather", "reduce_scatter") if setting.divides_sequence else ("all_reduce",)
        own = times if by_rows else 1
        for name in both:
            yield Talk(
                _send(f"{leaf.path}.tensor", name, size, setting.tp, calls * own, setting, setting.tp), "nothing"
            )
    if setting.ep > 1 and op.function in ("dispatch", "combine"):
        yield Talk(_experts(leaf, setting, calls * times), "nothing")
    if setting.cp > 1 and op.function == "scores" and isinstance(op.shape, Attend):
        yield from _keys(leaf, op.shape, setting, calls)


def _experts(leaf: Leaf, setting: Run, calls: float) -> Kernel:
    """Tokens to the ranks of the experts that they visit, or back."""
    op = leaf.op
    elements = op.writes if op.function == "dispatch" else op.reads
    assert elements is not None
    size = float(elements) / setting.cp * _width(setting)
    return _send(f"{leaf.path}.experts", "all_to_all", size, setting.ep, calls, setting, setting.ep * setting.tp)


def _keys(leaf: Leaf, shape: Attend, setting: Run, calls: float) -> Iterator[Talk]:
    """Keys and values of all context-parallel ranks, and going back the sums of their gradients."""
    size = shape.groups * shape.keys * (shape.d_head + shape.d_value) * _width(setting) / setting.tp
    gathers = 2 if setting.trains else 1
    yield Talk(
        _send(
            f"{leaf.path}.context", "all_gather", size, setting.cp, calls * gathers, setting, setting.cp * setting.tp
        ),
        "nothing",
    )
    if setting.trains:
        kernel = _send(
            f"{leaf.path}.context", "reduce_scatter", size, setting.cp, calls, setting, setting.cp * setting.tp
        )
        yield Talk(kernel, "nothing")


def _data(spec: ModelSpec, setting: Run, stage: Stage) -> Iterator[Talk]:
    """Gradients between ranks that hold the same weights, and weights where ZeRO divides them.

    Sums of gradients hide behind the last backward, weights are gathered while the layer before computes.
    """
    how = number_formats(setting).recipe
    assert how is not None
    own = states(spec, setting, [stage])[0]
    experts = _expert_share(spec) if setting.ep > 1 else 0.0
    span = setting.dp * setting.cp * setting.tp
    for name, part, ranks in (
        ("data", 1 - experts, setting.dp * setting.cp),
        ("data of experts", experts, setting.dp * setting.cp // setting.ep),
    ):
        if ranks < 2 or not part:
            continue
        gradients = own.trained * part * width_of(how.gradients)
        weights = own.elements * part * width_of(how.gathered or how.weights)
        if setting.zero == 0:
            yield Talk(_send(name, "all_reduce", gradients, ranks, 1, setting, span), "backward", True)
            continue
        often = setting.zero == 3 and setting.pp == 1
        yield Talk(_send(name, "reduce_scatter", gradients, ranks, 1, setting, span), "backward", not often)
        yield Talk(_send(name, "all_gather", weights, ranks, 1, setting, span), "forward", not often)
        if often:
            yield Talk(_send(name, "all_gather", weights, ranks, 1, setting, span), "backward")


def _expert_share(spec: ModelSpec) -> float:
    """Part of the parameters that stands in routed experts."""
    if not any(isinstance(group.channel, Moe) for group in spec.layers):
        return 0.0
    counted = parameters(spec)
    return float(counted.get("routed_expert", 0)) / float(sum(counted.values()))


def _send(path: str, op: Collective, size: float, ranks: int, calls: float, setting: Run, span: int) -> Kernel:
    """span: GPUs from the first to the last of the group, ranks numbered tensor first, then context, then data."""
    node = priors()["network"]["node"]
    if span > node and setting.network is None:
        expected = f"groups of ranks within a node of {node} GPUs, or --network, the bytes/s of one GPU between nodes"
        raise Refused("plan", expected, f"{path}: {op} over {span} GPUs")
    return Kernel(
        path=path,
        component="network",
        function=op,
        direction="network",
        dtype=number_formats(setting).compute,
        calls=float(calls),
        bytes=float(size),
        shape=Send(op, ranks, float(size), beyond=span > node),
    )
