"""Memory of a training step: the terms, and the moment at which the most is live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from calc.memory.activations import Activations, activations, check_adapter
from calc.memory.conditions import check
from calc.memory.rank import Rank
from calc.memory.sharding import Stage, held_stages, in_a_round
from calc.memory.states import States, states
from calc.sizes import Size, at_least, ceil_div, is_exactly, maximum, minimum
from calc.spec import ModelSpec
from calc.spec.load import Load
from calc.spec.run import Checkpointing, Run


@dataclass(frozen=True, slots=True)
class TrainingRank(Rank):
    """A rank that trains, with what its bytes are made of."""

    states: States
    activations: Activations
    run: Run

    @property
    def host(self) -> Size:
        """Bytes of the host's memory that this rank's process takes for what is updated, or waits, there."""
        return self.states.host + self.activations.moved

    @property
    def host_at_most(self) -> Size:
        """The same where PyTorch's allocator of pinned memory rounds every block up to a power of two, at worst to
        twice as much (c10's CachingHostAllocator)."""
        return self.states.host + self.states.pinned + 2 * self.activations.moved

    @property
    def reserved(self) -> Size:
        """What PyTorch's caching allocator has taken from the device in all (`torch.cuda.max_memory_reserved`).

        The peak, and with it blocks that are free then but of no use to what is being made. FSDP gathers weights and
        reduces gradients in CUDA streams of their own, and the allocator gives a block back only to the stream that
        asked for it: buffers of gathering, and gradients of the step before, freed long ago, stay reserved while the
        loss is at its height. And the logits, freed once they are copied into fp32, leave a block that is too small for
        gradients twice as wide. What else fragments is not predicted.
        """
        own, run, live = self.states, self.run, self.timeline
        shards = own.gradients * run.divides(2)
        streams = own.buffer + shards * (1 - _wait(run))
        loss = live["loss"] + streams + ceil_div(self.activations.freed, run.loss_chunks)
        return maximum(self.peak, maximum(loss, live["backward, last layer"] + streams))


def ranks(
    spec: ModelSpec, load: Load, run: Run, checkpointing: Checkpointing = "none", frozen: str | None = None
) -> list[TrainingRank]:
    """Every kind of pipeline rank; the tensor-, data- and context-parallel ranks of one stage are alike.

    frozen: the number format of weights that are not trained, None for the recipe's.
    Errors: Refused for a plan that does not divide the model, and first for adapters of which no plan is answered.
    """
    check_adapter(spec)
    check(spec, run)
    return on_stages(spec, load, run, held_stages(spec, run), checkpointing, frozen)


def on_stages(
    spec: ModelSpec,
    load: Load,
    run: Run,
    found: Sequence[Stage],
    checkpointing: Checkpointing,
    frozen: str | None,
) -> list[TrainingRank]:
    """The ranks of some stages, of which one may be a column of very many (`calc.memory.stage_columns`)."""
    live = activations(spec, load, run, checkpointing, found)
    own = states(spec, run, found, frozen)
    return [_rank(run, *each) for each in zip(found, own, live, strict=True)]


def _rank(run: Run, stage: Stage, own: States, live: Activations) -> TrainingRank:
    terms = {
        "weights": own.weights + own.open + _more(own.behind, _more(own.ahead, own.unit + own.following)),
        "gradients": own.waiting + maximum(own.reduced, own.root_reduced),
        "optimizer": own.optimizer,
        "activations": live.total,
        "logits": ceil_div(live.logits + live.between.logits, run.loss_chunks),
    }
    return TrainingRank(stage.name, terms, _moments(own, live, run, stage), own, live, run)


def _moments(own: States, live: Activations, run: Run, stage: Stage) -> dict[str, dict[str, Size]]:
    """What is live at the moments that can be the highest.

    Between them memory rises or falls steadily: layer by layer, activations go and gradients come.
    loss: all activations, and gradients of the loss. The last layer stays gathered for backward, which begins with it.
    gathered weights: the layer at work and the next, or all that have gone forward, or back, where those stay gathered.
    last layer: its tensors made anew where checkpointing dropped them, two gradients as large as its largest tensor,
        and under FSDP the next layer's weights on their way. Its gradients before they are divided.
    last one is back: where activations wait on the host, as many of them are on the device as at the last layer, while
        as many layers have gone back as waited there, whose gradients are there.
    first layer: the other layers' activations gone, their gradients there.
    reduction: under ZeRO-2 and 3 the root unit is reduced last; in a pipeline all units are, after the last
        micro-batch.
    next forward: in a pipeline whose layers stay gathered once they have gone back, and are divided again as they go
        forward, when one micro-batch has gone back and the next has not begun.
    next piece, last piece: once a stage of a pipeline has gone forward with all, backward of the first micro-batch that
        brings gradients of a further piece, and of the last one: activations of those before are gone. Between the two
        both change by as much from piece to piece.
    A pipeline's schedule holds what stages exchange throughout, and a micro-batch's result until that has gone back.
    Gradients are freed after the optimizer's step, unless earlier micro-batches have left theirs or a stack has buffers
    of all of them from the start.
    """
    gathered, both = own.weights + own.open, own.unit + own.following
    forth, returned = gathered + _more(own.ahead, both), gathered + _more(own.behind, both)
    back = _gone_back(run, stage)
    waits = _wait(run)
    before = own.waiting * waits if back is None else back.gradients(own, back.touched)
    first = 1 - waits if back is None else 1 - at_least(back.touched, stage.chunks)
    fresh = (own.layer_gradients + own.end_gradients) * first
    again = live.again + 2 * live.widest
    of_loss = live.logits + live.between.logits, live.between.logits, live.scratch
    logits, named, scratch = (ceil_div(each, run.loss_chunks) for each in of_loss)

    moment = partial(_moment, own, live)
    second: dict[str, dict[str, Size]] = {}
    if run.offload == "activations":
        layers = sum(stage.layers.values())
        stayed = 1 if run.layers_on_host is None else layers - run.layers_on_host
        there = maximum(own.waiting - stayed * own.layer_gradients * first, before) + own.reduced
        second["backward, the last one is back"] = moment(forth, there, live.in_flight, named, again)
    later: dict[str, dict[str, Size]] = {}
    if back is not None and not is_exactly(back.touched, stage.chunks):
        for name, piece in (("backward, next piece", back.touched + 1), ("backward, last piece", stage.chunks)):
            gradients, kept = back.gradients(own, piece) + own.reduced, _kept_at(back, live, stage, piece)
            later[name] = _only(
                at_least(stage.chunks, back.touched + 1), moment(returned, gradients, kept, named, again)
            )
    if not is_exactly(own.behind, 0):
        there = before if back is None else back.gradients(own, back.touched_next)
        between = moment(returned, there, _without_one(live, stage), named)
        later["next forward"] = _only(at_least(own.behind, 1), between)
    return {
        "forward": moment(forth, before, live.in_flight, logits),
        "loss": moment(gathered + _more(own.ahead, own.unit), before, live.in_flight, logits, scratch),
        "backward, last layer": moment(forth, before + fresh + own.reduced, live.in_flight, named, again),
        **second,
        **later,
        "backward, first layer": moment(
            returned, own.waiting + own.reduced, live.outside + live.between.each, named, again
        ),
        "reduction": moment(gathered + own.behind, own.waiting + maximum(own.reduced, own.root_reduced)),
        "optimizer step": moment(own.weights, own.gradients, temporaries=own.update),
    }


def _moment(
    own: States,
    live: Activations,
    weights: Size,
    gradients: Size,
    activations: Size = 0,
    logits: Size = 0,
    temporaries: Size = 0,
) -> dict[str, Size]:
    """Bytes by term, with those that are live at all moments."""
    return {
        "weights": weights,
        "gradients": gradients,
        "optimizer": own.optimizer,
        "activations": activations + live.between.buffers,
        "logits": logits,
        "temporaries": temporaries,
    }


class _GoneBack(NamedTuple):
    """How a stage of a pipeline goes back: with one piece of its layers for as many micro-batches as `in_a_round` says
    (`group`), and then with the piece before. pieces: of the stage; share: of its layers, the most that one has.
    before: pieces of micro-batches that it went back with by the last time that it keeps the most. touched: pieces of
    the stage among them, whose gradients are there."""

    pieces: Size
    share: tuple[Size, Size]
    group: Size
    before: Size

    @property
    def touched(self) -> Size:
        return minimum(self.pieces, ceil_div(self.before, self.group))

    @property
    def touched_next(self) -> Size:
        """The same once one piece more of a micro-batch has gone back."""
        return minimum(self.pieces, ceil_div(self.before + 1, self.group))

    def gradients(self, own: States, touched: Size) -> Size:
        """Bytes of those of so many pieces, and from the first on of what stands outside layers."""
        each = ceil_div((own.waiting - own.root_gradients) * self.share[0], maximum(self.share[1], 1))
        return minimum(own.waiting, own.root_gradients * at_least(touched, 1) + each * touched)

    def left(self, stage: Stage, piece: Size) -> Size:
        """Pieces of micro-batches that are in flight once the first of them has gone back through so many."""
        gone = (piece - 1) * self.group + 1 - self.before
        return maximum(stage.held - maximum(gone, 0), 0)


def _kept_at(back: _GoneBack, live: Activations, stage: Stage, piece: Size) -> Size:
    """Bytes of activations once the first micro-batch has gone back through so many pieces of a stage."""
    left = back.left(stage, piece)
    kept = live.outside + ceil_div(live.layers * left, stage.held)
    # Of the piece that has just gone back, its result is still there.
    named_results = live.between.each * at_least(stage.held - left, 1)
    kept = kept + minimum(live.between.sent, live.between.each * left) + named_results
    return kept + ceil_div(live.ends * left, maximum(stage.held - 1, 1))


def _without_one(live: Activations, stage: Stage) -> Size:
    """Bytes of activations of a stage of a pipeline that keeps the most but for one piece of a micro-batch."""
    left = stage.held - 1
    kept = live.outside + ceil_div(live.layers * left, stage.held) + live.between.each
    kept = kept + minimum(live.between.sent, live.between.each * left)
    return kept + ceil_div(live.ends * left, maximum(left, 1))


def _only(there: Size, moment: dict[str, Size]) -> dict[str, Size]:
    """A moment where there is one, 1 or 0: of columns of stages not all have it."""
    return {name: there * term for name, term in moment.items()}


def _more(stays: Size, works: Size) -> Size:
    """The larger of two sizes, of which the first may be none at all."""
    return works if is_exactly(stays, 0) else maximum(stays, works)


def _wait(run: Run) -> Size:
    """1 where gradients of all layers are there before a micro-batch goes back, of earlier ones or as buffers."""
    return 1 if _has_buffers(run) else run.accumulates


def _has_buffers(run: Run) -> bool:
    """Whether a stack whose products add to gradients has buffers of all of them from the start and never frees them
    (Megatron-Core's ParamAndGradBuffer)."""
    return run.stack is not None and run.stack.accumulates


def _gone_back(run: Run, stage: Stage) -> _GoneBack | None:
    """How a stage goes back, where gradients appear as it does: in pipelines that go forward first, under stacks that
    keep none from step to step; of DualPipe, which goes back early, it is not told."""
    if is_exactly(run.pp, 1) or run.schedule == "dualpipe" or _has_buffers(run):
        return None
    layers, passes = sum(stage.layers.values()), run.micro_batches_a_step
    before = maximum(passes * stage.chunks - stage.held, 0)
    return _GoneBack(stage.chunks, (ceil_div(layers, stage.chunks), layers), minimum(in_a_round(run), passes), before)
