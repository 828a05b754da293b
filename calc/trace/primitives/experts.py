"""What surrounds routed experts: their choice, tokens into their order, and what they give back in order."""

from __future__ import annotations

from calc.sizes import Size
from calc.spec import Moe, Norm
from calc.trace.op import Moves
from calc.trace.primitives.arithmetic import weighed_by
from calc.trace.primitives.norm import saved_by_norm
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Split, Tensor

INDEX = "int64"


def route(t: Recorder, spec: Moe, scores: Tensor, x: Tensor) -> Tensor:
    """The weights [tokens, top_k] of the experts that each token chooses, from scores of all of them; 0 FLOPs."""
    chosen = t.made(x.rows, spec.top_k, scores)
    frozen = ()
    if spec.frozen_correction:
        frozen = (t.weight("correction", spec.n_experts, of="router", trainable=False),)
    t.op(
        "route",
        "elementwise",
        "route",
        (scores,),
        (chosen,),
        weights=frozen,
        of="router",
        # Their numbers are written beside the weights.
        moves=lambda: Moves(scores.elements, 2 * chosen.elements),
        keeps=lambda tape, logits, read: _saved_by_route(tape, spec, chosen, logits, read),
        operands=(scores, x),
    )
    return chosen


def _saved_by_route(tape: Tape, spec: Moe, chosen: Tensor, logits: Storage, x: Storage) -> Storage:
    tokens = chosen.rows
    with tape.at("router"):
        for _ in range(spec.jitters if spec.jitter is not None and x.grad else 0):
            tape.keep(Storage(x.elements, "fp32" if spec.wide_router else x.dtype, False), "noise")
        if spec.balanced is not None and logits.grad:
            wide = spec.balanced == "fp32" or tape.settings.autocast_on_gpu
            tape.balances.append(tape.like(logits, dtype="fp32" if wide else None))
        # A router of several layers weighs in its own format.
        own = spec.deep_router is not None and not tape.settings.autocast_on_gpu
        logits = logits if own else tape.cast(logits, "fp32")
        if spec.scoring == "sqrt_softplus":
            logits = tape.reads_input(logits)
        if spec.corrected == "logits":
            return _of_chosen(tape, spec, chosen, logits, x)
        scores = tape.reads_result(logits)
        if scores.grad and spec.scoring == "sparsemixer":
            _mixed(tape, spec, logits, tokens)
        elif scores.grad and spec.masked:
            tape.keep(Storage(chosen.elements * spec.routes, INDEX, False), "masks of chosen experts")
        elif scores.grad:
            tape.choices[chosen] = Storage(chosen.elements, INDEX, False)
            tape.keep(tape.choices[chosen], "chosen experts")
        if scores.grad:
            tape.keep(Storage(spec.routes, "fp32", False, "none"), "share of visits of each expert")
        if scores.grad and spec.skips:
            tape.keep(Storage(tokens, "bool", False), "tokens that skip")
        weights = Storage(tokens * spec.top_k, x.dtype if spec.masked else scores.dtype, scores.grad)
        weights = _renormalized(tape, spec, weights, tokens)
        return weights if spec.scaled_router else tape.like(weights, dtype=x.dtype)


def _of_chosen(tape: Tape, spec: Moe, chosen: Tensor, logits: Storage, x: Storage) -> Storage:
    """Logits of the chosen experts are taken first, which keeps those of all, and scored then: a loss that holds all
    experts to even shares has nothing to read."""
    if logits.grad:
        tape.keep(logits, "logits that some are taken of")
        tape.keep(Storage(chosen.elements, INDEX, False), "chosen experts")
    weights = tape.reads_result(Storage(chosen.elements, logits.dtype, logits.grad))
    return tape.like(_renormalized(tape, spec, weights, chosen.rows), dtype=x.dtype)


def _renormalized(tape: Tape, spec: Moe, weights: Storage, tokens: Size) -> Storage:
    """Weights [tokens, top_k], divided by each token's sum where the model does."""
    if not spec.renormalize:
        return weights
    total = Storage(tokens, weights.dtype if spec.masked else "fp32", weights.grad)
    if spec.masked:
        total = tape.reads_input(total)
    return tape.like(tape.times(weights, total))


def _mixed(tape: Tape, spec: Moe, logits: Storage, tokens: Size) -> None:
    """Two times: which logits are left out, a softmax over the others, and the expert it is read at."""
    for _ in range(2):
        tape.keep(Storage(tokens * spec.n_experts, "bool", False), "logits left out")
        tape.keep(Storage(tokens * spec.n_experts, logits.dtype), "share of each expert")
        tape.keep(Storage(tokens, INDEX, False), "chosen expert")


def router_input(t: Recorder, x: Tensor) -> Tensor:
    """x through a norm without weights, times a learned vector, as one kernel (Gemma 4's router)."""
    scale = t.weight("router_scale", x.width, of="router")
    y = t.made(x.rows, x.width, x, weights=(scale,))

    def keeps(tape: Tape, read: Storage) -> Storage:
        normed = saved_by_norm(tape, Norm(affine=False), read, x.rows)
        return weighed_by(tape, normed, scale.trainable)

    t.op("router_scale", "elementwise", "rmsnorm", (x,), (y,), weights=(scale,), of="router", keeps=keeps)
    return y


def expert_scale(t: Recorder, spec: Moe, chosen: Tensor, x: Tensor) -> Tensor:
    """Each chosen weight times a learned number of its expert."""
    scale = t.weight("expert_scale", spec.n_experts, of="router")
    y = t.made(chosen.rows, chosen.width, chosen, weights=(scale,))

    def keeps(tape: Tape, weights: Storage, read: Storage) -> Storage:
        if scale.trainable:
            # The choice is noted for the scales as well as for the scores: one tensor, which `route` has kept.
            tape.keep(tape.choices.get(chosen) or Storage(y.elements, INDEX, False), "chosen experts")
        weights = tape.times(weights, Storage(y.elements, tape.settings.stream, scale.trainable))
        return tape.like(weights, dtype=read.dtype)

    t.op(
        "expert_scale",
        "elementwise",
        "scale",
        (chosen,),
        (y,),
        weights=(scale,),
        of="router",
        keeps=keeps,
        operands=(chosen, x),
    )
    return y


def dispatch(t: Recorder, spec: Moe, x: Tensor, weights: Tensor, rows: Size) -> Tensor:
    """A copy of every token for each visit, in the experts' order: [rows, width], with a capacity in all the room there
    is; weighed already where a model weighs what experts read. Experts in one kernel find their tokens themselves."""
    visits = x.rows * spec.top_k
    weighs = spec.weigh == "input"
    # Heads of experts of attention stay where they are.
    split: Split = "visits" if x.split == "stream" else x.split
    y = t.made(rows, x.width, x, *((weights,) if weighs else ()), split=split)
    y.inside = "compiled"

    def keeps(tape: Tape, read: Storage, weights: Storage) -> Storage:
        if read.grad:
            tape.keep(Storage(visits, INDEX, False), "tokens by expert")
        made = Storage(visits * x.width, read.dtype, read.grad, split)
        if weighs:
            if weights.grad:
                tape.keep(Storage(visits, INDEX, False), "order of visits")
            made = tape.times(made, Storage(visits, weights.dtype, weights.grad))
        # With room for a number of tokens each expert reads as many rows as it has room for, a copy of its own.
        return made if spec.capacity_factor is None else Storage(y.elements, made.dtype, made.grad, split)

    t.op(
        "dispatch",
        "elementwise",
        "dispatch",
        (x, weights) if weighs else (x,),
        (y,),
        of="routed_expert",
        moves=lambda: Moves(x.elements, visits * x.width),
        keeps=keeps,
        operands=(x, weights),
    )
    return y


def combine(t: Recorder, spec: Moe, made: Tensor, weights: Tensor, tokens: Size, *, in_turn: bool = False) -> Tensor:
    """What the experts give, back in the tokens' order, weighed and summed up: [tokens, width].

    in_turn: what each expert gives is added to the sum of those before it (index_add), which keeps what it adds.
    """
    visits = tokens * spec.top_k
    weighs = spec.weigh == "result"
    y = t.made(tokens, made.width, made, *((weights,) if weighs else ()))

    def keeps(tape: Tape, read: Storage, weights: Storage) -> Storage:
        if read.grad:
            tape.keep(Storage(visits, INDEX, False), "places of visits")
        each = Storage(visits * made.width, read.dtype, read.grad)
        if weighs and tape.settings.weighs_activation:
            if each.grad:
                tape.keep(weights, "factor")
        elif weighs:
            each = tape.times(each, weights)
        if in_turn:
            each = tape.cast(each, read.dtype)
            if each.grad:
                tape.keep(each, "what is added")
        return Storage(y.elements, each.dtype, each.grad)

    t.op(
        "combine",
        "elementwise",
        "combine",
        (made, weights) if weighs else (made,),
        (y,),
        of="routed_expert",
        operands=(made, weights),
        moves=lambda: Moves((1 + in_turn) * visits * made.width, visits * made.width if in_turn else y.elements),
        keeps=keeps,
        # What experts read still has a name when their results are weighed and brought in order, one copy for each.
        live_bytes=lambda room: room.of(y) if room.compiled else 3 * room.of(made),
    )
    return y


def shared_scale(t: Recorder, shared: Tensor, gate: Tensor) -> Tensor:
    """What all tokens' experts give times the sigmoid of one number a token."""
    y = t.made(shared.rows, shared.width, shared, gate)
    t.op(
        "shared_scale",
        "elementwise",
        "scale",
        (shared, gate),
        (y,),
        of="shared_expert",
        keeps=lambda tape, read, g: tape.like(tape.times(read, tape.reads_result(g))),
    )
    return y
