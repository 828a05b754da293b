"""What GPUs tell each other in a step, by what divides the model, and what of it computing hides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from calc.memory.sharding import Stage
from calc.quantities.modules import in_pieces
from calc.sizes import Size, at_least, is_array, maximum
from calc.spec import ModelSpec
from calc.spec.hardware import Device
from calc.spec.run import Run
from calc.time.cluster.crossing import cores_left
from calc.time.cluster.links import Links
from calc.time.cluster.stacks import stack_of
from calc.time.kernels.kernel import Between, Kernel, width_of
from calc.time.models.collective import Collective
from calc.time.step.expert_exchange import of_experts
from calc.time.step.formats import number_formats
from calc.time.step.messages import after, send, width_sent
from calc.time.step.record import tree_of
from calc.trace.functions import Attend
from calc.trace.part import Leaf
from calc.trace.shard import VOCABULARY

Hidden = Literal["nothing", "forward", "backward"]
WIDE = 4
"""Bytes of a number in fp32."""
WITHIN_A_PASS: tuple[Between, ...] = ("tensor", "context", "experts")
"""Which ranks tell one another something within a pass."""


class Held(NamedTuple):
    """Parameters of one rank before ZeRO divides them, and those that are trained; of both those in routed experts
    where these are spread over ranks. narrow: trained ones in matrices that have narrow copies."""

    elements: Size
    trained: Size
    expert_elements: Size
    expert_trained: Size
    narrow: Size
    expert_narrow: Size


class Message(NamedTuple):
    """A collective, and behind which computation it hides as far as that lasts; `once` a step, not each micro-batch."""

    kernel: Kernel
    behind: Hidden
    once: bool = False


def between_ops(spec: ModelSpec, run: Run, links: Links) -> Iterator[Kernel]:
    """Every collective within one pass through all layers: for these computing waits. They are the same whatever dp, pp
    and the number of micro-batches are.

    Errors: Refused for groups of ranks beyond a node without the rate of the network between nodes.
    """
    for leaf, times in times_run(tree_of(spec, run), run):
        yield from after_op(leaf, spec, run, links, times)


def times_run(some: Iterable[Leaf], run: Run) -> Iterator[tuple[Leaf, float]]:
    """Each op, and how often a pass runs it or goes back through it."""
    again = run.checkpointing in ("full", "full-early-stop", "selective-op")
    times = 2 + again / run.checkpoint_every if run.trains else 1
    pieces = run.again - {"attention"} if run.trains else frozenset()
    for leaf in some:
        yield leaf, times + 1 if pieces and in_pieces(leaf, pieces) else times


def hides(run: Run, between: str, device: Device | None) -> Size:
    """What part of the seconds of collectives between such ranks passes behind computing under the stack of a run.

    Products in as many pieces as there are ranks leave one piece's exchange open (Wang et al. 2023, ASPLOS, and
    Megatron-Core's user buffers), and so does a ring of keys and values (arXiv:2310.01889): copies, which hold no
    cores. Others lose what computing is slowed by, unless the stack takes cores for them from all computing.
    """
    overlap = stack_of(run).overlap
    if between == "tensor":
        return float(overlap.tensor) * (1 - 1 / run.tp)
    if between == "context":
        return float(overlap.context) * (1 - 1 / run.cp)
    if between == "data":
        return float(overlap.data) * cores_left(device)
    launched = 1.0 if run.usual_graphs == "step" else overlap.experts_launched
    return overlap.experts * launched * (1.0 if overlap.cores else cores_left(device))


def between_ranks(spec: ModelSpec, run: Run, stage: Stage, held: Held, links: Links) -> Iterator[Message]:
    """What a stage of a pipeline tells others, and ranks that hold the same weights each other, in a step of training.

    Sizes of the plan and of `held` may be arrays; what some rows do without is then called 0 times there.
    """
    if not run.trains:
        return
    share = run.cp * (run.tp if run.divides_sequence else 1)
    size = run.batch * run.new_tokens * spec.stream_width * width_sent(run) / share
    stride = run.tp * run.cp * run.dp
    calls, span = at_least(run.pp, 2) * 2 * run.interleave, stride * run.pp
    # Pieces of a stage leave time to send while another piece computes.
    behind = at_least(run.interleave, 2) * float(stack_of(run).overlap.pipeline)
    sent = (
        Message(
            send("pipeline", "pipeline", "send", size, 2, calls * (1 - behind), links, run, stride, span), "nothing"
        ),
        Message(send("pipeline", "pipeline", "send", size, 2, calls * behind, links, run, stride, span), "backward"),
        *_tied(spec, run, stage, stride, links),
    )
    for message in (*sent, *_data(run, held, links)):
        if is_array(message.kernel.calls) or message.kernel.calls:
            yield message


def _tied(spec: ModelSpec, run: Run, stage: Stage, stride: Size, links: Links) -> Iterator[Message]:
    """Gradients of a table that the first stage and the last have both, summed once all others are (Megatron-LM's
    embedding group, DeepSpeed's tied layers): of a tied head, and of modules that predict further tokens.
    Under DualPipe the two are one rank's, and the table is one too (DeepSeek-V3, arXiv:2412.19437, section 3.2.1)."""
    how = number_formats(run).recipe
    shared = run.mtp or (spec.head is not None and spec.head.tied)
    if how is None or not shared or run.schedule == "dualpipe":
        return
    size = table_elements(spec) / run.tp * width_of(how.summed)
    calls = at_least(run.pp, 2) * maximum(stage.first * 1, stage.last * 1)
    yield Message(
        send("data of the table", "data", "all_reduce", size, 2, calls, links, run, stride, stride * run.pp),
        "nothing",
        True,
    )


def table_elements(spec: ModelSpec) -> Size:
    """Elements of the table of tokens."""
    return (spec.vocab_size or 0) * (getattr(spec.embedding, "d_embed", None) or spec.d_model)


def after_op(leaf: Leaf, spec: ModelSpec, run: Run, links: Links, times: float) -> Iterator[Kernel]:
    """What follows one op: sums of parts, experts' tokens, keys and values of other ranks; nothing where these are one.
    times: how often a pass runs it or goes back through it, on which only how often each is sent depends."""
    op, calls = leaf.op, float(leaf.calls)
    shard = op.own_or_lent[0].shard if op.own_or_lent and not leaf.expert else None
    by_rows = shard is not None and shard.axis == 1
    if run.tp > 1 and (by_rows or shard is VOCABULARY):
        # A tower has rows of its own; of the vocabulary's two ends the stream is what is summed.
        elements = op.outputs[0].elements if by_rows else run.batch * run.new_tokens * spec.d_model
        size = float(elements) / run.cp * width_sent(run)
        # Sums amid a block are whole on every rank.
        scattered = run.divides_sequence and (not by_rows or op.outputs[0].split != "none")
        both: tuple[Collective, ...] = ("all_gather", "reduce_scatter") if scattered else ("all_reduce",)
        own = times if by_rows else 1
        for name in both:
            yield after(leaf, "tensor", name, size, run.tp, calls * own, run, links)
    ranks = run.expert_pieces if leaf.expert else run.tp
    if op.groups is not None and op.groups < ranks:
        # Each rank has a part of every vector that is normed: a sum of squares, and going back one of products; where
        # the mean is taken away, one more.
        numbers = 2 if op.function == "layernorm" else 1
        size = float(op.outputs[0].rows * op.groups) / run.cp * WIDE * numbers
        yield after(leaf, "tensor", "all_reduce", size, ranks, calls * times, run, links)
    yield from of_experts(leaf, spec, run, links, times)
    if run.cp > 1 and op.function == "scores" and isinstance(op.shape, Attend):
        # Keys and values of all context-parallel ranks, and going back the sums of their gradients.
        shape = op.shape
        size = shape.groups * shape.keys * (shape.d_head + shape.d_value) * width_sent(run) / run.tp
        yield after(leaf, "context", "all_gather", size, run.cp, calls * (2 if run.trains else 1), run, links, run.tp)
        if run.trains:
            yield after(leaf, "context", "reduce_scatter", size, run.cp, calls, run, links, run.tp)


def _data(run: Run, held: Held, links: Links) -> Iterator[Message]:
    """Gradients between ranks that hold the same weights, and weights where ZeRO divides them.

    Sums of gradients hide behind the last backward, weights are gathered while the layer before computes.
    """
    how = number_formats(run).recipe
    assert how is not None
    divides, groups = at_least(run.zero, 1), run.replicas() / run.sharing
    reduces, (forth, back) = run.reduces_each_pass, run.gathers_each_pass
    parts = at_least(run.zero, run.weights_from)
    dense = (
        held.elements - held.expert_elements,
        held.trained - held.expert_trained,
        held.narrow - held.expert_narrow,
    )
    experts = held.expert_elements, held.expert_trained, held.expert_narrow
    for name, (elements, trained, narrow), expert in (("data", dense, False), ("data of experts", experts, True)):
        ranks, sharers = run.replicas(expert), run.sharers(expert)
        stride = run.expert_pieces * run.ep if expert else run.tp
        gradients = trained * width_of(how.summed)
        width, its = width_of(how.gathered or how.weights), run.narrow_weights
        # Where ranks keep all weights, none lacks any but those that another has just updated.
        weights, updated = elements * width, trained * width
        if its is not None:
            weights = weights + narrow * (float(its.sent_each) - width)
            updated = updated + narrow * (float(its.sent) - width)
        some, several = at_least(elements, 1), at_least(sharers, 2)
        ways: tuple[tuple[Collective, Size, Hidden, bool, Size], ...] = (
            ("all_reduce", gradients, "backward", True, at_least(ranks, 2) * (1 - divides)),
            ("reduce_scatter", gradients, "backward", True, several * (divides - reduces)),
            ("all_gather", updated, "forward", True, several * (divides - parts)),
            ("all_gather", weights, "forward", True, several * (parts - forth)),
            ("reduce_scatter", gradients, "backward", False, several * reduces),
            ("all_gather", weights, "forward", False, several * forth),
            ("all_gather", weights, "backward", False, several * back),
        )
        for op, size, behind, once, calls in ways:
            among = ranks if op == "all_reduce" else sharers
            yield Message(send(name, "data", op, size, among, some * calls, links, run, stride), behind, once)
        if run.shard is not None:
            summed = divides * at_least(groups, 2) * some
            kernel = send(
                f"{name} of replicas",
                "data",
                "all_reduce",
                gradients / sharers,
                groups,
                summed,
                links,
                run,
                stride * sharers,
            )
            yield Message(kernel, "backward", True)
