"""What stands around RWKV-7's rule, number by number (Peng et al. 2025, arXiv:2503.14456, section 4.1)."""

from __future__ import annotations

from typing import NamedTuple

from calc.sizes import Size
from calc.spec import Rwkv7
from calc.spec.load import Load
from calc.trace.op import Cache, Moves, Weight
from calc.trace.primitives.arithmetic import weighed_by
from calc.trace.recorder import Recorder
from calc.trace.shard import COLUMN
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


class RuleInputs(NamedTuple):
    """All [tokens, n_heads * d_head] and in fp32: receptances, logarithms of decays, keys, values, what is read of the
    state to be removed, and what is written in its place."""

    r: Tensor
    decay: Tensor
    k: Tensor
    v: Tensor
    removed: Tensor
    replaced: Tensor


def value_mix(t: Recorder, value: Tensor, first: Tensor, share: Tensor) -> Tensor:
    """value + (first - value) * sigmoid(share)."""
    y = t.made(value.rows, value.width, value, first, share, split="tensor")

    def keeps(tape: Tape, own: Storage, other: Storage, share: Storage) -> Storage:
        return tape.like(own, tape.times(tape.like(other, own), tape.reads_result(share)))

    t.op("value_mix", "elementwise", "other", (value, first, share), (y,), keeps=keeps)
    return y


def rule_inputs(
    t: Recorder, spec: Rwkv7, r: Tensor, key: Tensor, value: Tensor, rate: Tensor, decay: Tensor, load: Load
) -> RuleInputs:
    """Out of a key and the logits of its rate and decay: the key as it is written, the unit vector that is removed, and
    that times the rate. Receptances and values are but widened."""
    own = tuple(t.weight(name, spec.n_heads, spec.d_head, shard=COLUMN) for name in ("removal", "replacement"))
    made = tuple(t.made(key.rows, key.width, key, rate, decay, weights=own, split="tensor") for _ in range(4))
    made[0].grad = decay.grad
    state = Cache(recurrent=key.width * spec.d_head, heads=spec.n_heads)
    vectors = key.rows * spec.n_heads
    written = 0 if load.decode else load.batch * state.recurrent
    t.op(
        "keys",
        "elementwise",
        "other",
        (key, rate, decay),
        made,
        weights=own,
        cache=state,
        moves=lambda: Moves(3 * key.elements, 4 * key.elements, state_writes=written),
        keeps=lambda tape, *reads: _saved_by_keys(tape, own, vectors, *reads),
    )
    decays, keys, removed, replaced = made
    return RuleInputs(_widened(t, r), decays, keys, _widened(t, value), removed, replaced)


def _saved_by_keys(
    tape: Tape, own: tuple[Weight, ...], vectors: Size, key: Storage, rate: Storage, decay: Storage
) -> list[Storage]:
    removal, replacement = own
    key, rate, decay = (tape.cast(each, "fp32") for each in (key, rate, decay))
    decay, rate = tape.like(tape.reads_result(decay)), tape.reads_result(rate)
    weighed = weighed_by(tape, key, removal.trainable)
    # Each vector is divided by its length, or by a tiny number where that is 0.
    lengths = tape.reads_result(Storage(vectors, "fp32", tape.reads_input(weighed).grad, "tensor"))
    unit = tape.times(weighed, tape.like(lengths))
    saved = tape.times(key, tape.like(weighed_by(tape, tape.like(rate), replacement.trainable)))
    return [decay, saved, tape.like(unit), tape.times(unit, rate)]


def _widened(t: Recorder, x: Tensor) -> Tensor:
    """x in fp32, as what reads it takes it; no kernel is counted."""
    return t.silent("wide", (x,), x.view(x.rows, x.width), lambda tape, read: tape.cast(read, "fp32"))


def bonus(t: Recorder, spec: Rwkv7, y: Tensor, read: RuleInputs) -> Tensor:
    """y + (the sum over each head of r * k * bonus) * v: what a token adds to its own result."""
    weight = t.weight("bonus", spec.n_heads, spec.d_head, shard=COLUMN)
    made = t.made(y.rows, y.width, y, read.r, read.k, read.v, weights=(weight,), split="tensor")

    def keeps(tape: Tape, y: Storage, r: Storage, k: Storage, v: Storage) -> Storage:
        weighed = weighed_by(tape, tape.times(r, k), weight.trainable)
        total = Storage(made.rows * spec.n_heads, "fp32", weighed.grad, "tensor")
        return tape.like(y, tape.times(v, total))

    inputs = (y, read.r, read.k, read.v)
    t.op("bonus", "elementwise", "other", inputs, (made,), weights=(weight,), keeps=keeps)
    return made


def gated(t: Recorder, x: Tensor, y: Tensor, gate: Tensor) -> Tensor:
    """y * gate, in the number format of x, which the block reads."""
    made = t.made(y.rows, y.width, y, gate, split="tensor")

    def keeps(tape: Tape, x: Storage, y: Storage, gate: Storage) -> Storage:
        return tape.cast(tape.times(y, gate), x.dtype)

    t.op("gate", "elementwise", "scale", (y, gate), (made,), keeps=keeps, operands=(x, y, gate))
    return made
