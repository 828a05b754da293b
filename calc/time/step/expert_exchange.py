"""What ranks send one another around a layer's routed experts: tokens to their experts' ranks and back, and what
tensor-parallel ranks that each have a part of every expert need of one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from calc.sizes import Size
from calc.spec import ModelSpec, Moe
from calc.spec.run import Run
from calc.time.cluster.links import Links
from calc.time.cluster.stacks import stack_of
from calc.time.kernels.kernel import Exchange, Kernel, Send
from calc.time.models.collective import Collective
from calc.time.step.messages import after, width_sent
from calc.time.step.places_visited import places_visited
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
    channel = _routed(leaf, spec)
    # Tensor-parallel ranks that divide the stream send a part of its tokens each.
    size = (
        float(sent[0].elements)
        * _computed(channel)
        / run.cp
        * width_sent(run)
        / (run.tp if run.divides_sequence else 1)
    )
    # Who sends a token once to each rank does so to each domain too; a plain all-to-all copies it for each expert.
    shared = stack_of(run).once_a_rank
    rows = _visited(channel, run.ep) if shared else 1.0
    calls = float(leaf.calls) * times
    kernel = after(leaf, "experts", "all_to_all", size * rows, run.ep, calls, run, links, stride=run.expert_pieces)
    assert isinstance(kernel.shape, Send)
    domains = run.ep / kernel.shape.near
    shape = replace(kernel.shape, once=_visited(channel, domains) / rows if shared else 1.0)
    if channel is not None and _by_deepep(run, links):
        shape = replace(shape, exchange=_deepep(channel, sent[0].width, size, run))
    return kernel._replace(shape=shape)


def _by_deepep(run: Run, links: Links) -> bool:
    """Whether DeepEP sends tokens of a training within one node that is all of a domain, as it was measured."""
    how = stack_of(run).deepep
    whole = how is not None and run.ep == links.domain == how.peers
    return whole and run.trains and run.expert_pieces == 1 and width_sent(run) == 2


def _deepep(channel: Moe, hidden: Size, size: float, run: Run) -> Exchange:
    """size: bytes of a row to each expert of a rank's tokens."""
    how = stack_of(run).deepep
    assert how is not None
    tokens = size / width_sent(run) / float(hidden) / float(channel.visits)
    top_k, experts = float(channel.top_k), float(channel.n_experts)
    return Exchange(tokens, float(hidden), top_k, experts, float(run.ep), float(how.sms), how.gpus)


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
        elements = visits * (_visited(_routed(leaf, spec), run.ep) if stack_of(run).once_a_rank else 1.0)
    size, calls = elements / run.cp * width_sent(run), float(leaf.calls) * times
    for name in names:
        yield after(leaf, "experts", name, size, run.expert_pieces, calls, run, links)


def _computed(channel: Moe | None) -> float:
    """Of the rows that are laid out for experts, those that others than a token's own rank compute: none is sent to
    experts that give back what they read."""
    return 1.0 if channel is None else float(channel.visits) / float(channel.top_k)


def _visited(channel: Moe | None, places: float) -> float:
    """Of the rows that a token's experts read, how many are sent where each of `places` (domains, or ranks) that hold
    experts of it gets one: what dispatchers send (DeepSeek-V3, arXiv:2412.19437, section 3.2.2; DeepEP and HybridEP).
    """
    return 1.0 if channel is None else places_visited(channel, places) / float(channel.visits)


def _routed(leaf: Leaf, spec: ModelSpec) -> Moe | None:
    """What routes the tokens of an op: of its layer, or of the module for further tokens that it is in."""
    if leaf.component == "mtp" and spec.mtp is not None:
        channel = spec.mtp.channel
    else:
        channel = next((each.channel for each in spec.layers if each.name == leaf.group), None)
    return channel if isinstance(channel, Moe) else None
