"""What ranks send one another around a layer's routed experts: tokens to their experts' ranks and back, and what
tensor-parallel ranks that each have a part of every expert need of one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from calc.spec import ModelSpec, Moe
from calc.spec.run import Run
from calc.time.cluster.links import Links
from calc.time.cluster.stacks import stack_of
from calc.time.kernels.kernel import Kernel, Send
from calc.time.models.collective import Collective
from calc.time.step.messages import after, width_sent
from calc.trace.part import Leaf


def of_experts(leaf: Leaf, spec: ModelSpec, run: Run, links: Links, times: float) -> Iterator[Kernel]:
    """Every collective that one op asks for around experts, `times` as often as it runs forward."""
    op = leaf.op
    if run.ep > 1 and op.function in ("dispatch", "combine"):
        yield _exchange(leaf, spec, run, links, times)
    shard = op.own_or_lent[0].shard if leaf.expert and op.own_or_lent else None
    if run.expert_pieces > 1 and shard is not None and shard.axis == 1:
        yield from _in_parts(leaf, spec, run, links, times)


def _exchange(leaf: Leaf, spec: ModelSpec, run: Run, links: Links, times: float) -> Kernel:
    """Tokens to the ranks of their experts, or what these made of them back."""
    sent = leaf.op.outputs if leaf.op.function == "dispatch" else leaf.op.inputs
    # Tensor-parallel ranks that divide the stream send a part of its tokens each.
    size = (
        float(sent[0].elements)
        * _computed(spec, leaf.group)
        / run.cp
        * width_sent(run)
        / (run.tp if run.divides_sequence else 1)
    )
    rows = _visited(spec, leaf.group, run.ep) if stack_of(run).once_a_rank else 1.0
    calls = float(leaf.calls) * times
    kernel = after(leaf, "experts", "all_to_all", size * rows, run.ep, calls, run, links, stride=run.expert_pieces)
    assert isinstance(kernel.shape, Send)
    domains = run.ep / kernel.shape.near
    return kernel._replace(shape=replace(kernel.shape, once=_visited(spec, leaf.group, domains) / rows))


def _in_parts(leaf: Leaf, spec: ModelSpec, run: Run, links: Links, times: float) -> Iterator[Kernel]:
    """Sums over ranks that each have some columns of every expert's last matrix, which is the op of `leaf`.

    Ranks that divide the stream gather what their experts read and scatter the sums, both behind the exchange and in
    as many rows as it brings, or, of experts that all ranks have, each token once. Those with the whole stream add up
    tokens once their experts' results are together. Products in pieces hide none of it: the dispatcher sends it.
    Source: Megatron-Core, megatron/core/transformer/moe/token_dispatcher.py at 0014f137: MoEAlltoAllTokenDispatcher
    ("permute->A2A(EP)->AG(TP)", "RS(TP)->A2A(EP)->unpermute"), MoEAllGatherTokenDispatcher without experts' ranks; its
    flex dispatcher sends a token to every rank of both kinds by itself, which is as many bytes.
    """
    around = next(i for i in reversed(range(len(leaf.parents))) if leaf.parents[i].expert)
    width = float(leaf.op.outputs[0].width)
    tokens = float(leaf.parents[around - 1].inputs[0].rows) * width
    visits = float(leaf.op.outputs[0].rows) * width
    names: tuple[Collective, ...] = ("all_gather", "reduce_scatter") if run.divides_sequence else ("all_reduce",)
    elements = tokens
    if run.divides_sequence and run.ep > 1:
        elements = visits * (_visited(spec, leaf.group, run.ep) if stack_of(run).once_a_rank else 1.0)
    size, calls = elements / run.cp * width_sent(run), float(leaf.calls) * times
    for name in names:
        yield after(leaf, "experts", name, size, run.expert_pieces, calls, run, links)


def _computed(spec: ModelSpec, group: str | None) -> float:
    """Of the rows that are laid out for experts, those that others than a token's own rank compute: none is sent to
    experts that give back what they read."""
    channel = next((each.channel for each in spec.layers if each.name == group), None)
    return float(channel.visits) / float(channel.top_k) if isinstance(channel, Moe) else 1.0


def _visited(spec: ModelSpec, group: str | None, places: float) -> float:
    """Of the rows that a token's experts read, how many are sent where each of `places` (domains, or ranks) that hold
    experts of it gets one: what dispatchers send (DeepSeek-V3, arXiv:2412.19437, section 3.2.2; DeepEP and HybridEP).
    Experts are taken to be chosen evenly, of as many groups as a router is limited to."""
    channel = next((each.channel for each in spec.layers if each.name == group), None)
    if not isinstance(channel, Moe):
        return 1.0
    if channel.groups is not None:
        places = min(places, float(channel.groups.chosen) * max(places / float(channel.groups.count), 1.0))
    return min(places * (1 - (1 - 1 / places) ** channel.visits) / channel.visits, 1.0)
