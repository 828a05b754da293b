"""Activations, alone and times a gate's other half."""

from __future__ import annotations

from calc.sizes import exact_div
from calc.trace.functions import Clamped, Function, gated
from calc.trace.op import Component
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def activation(t: Recorder, name: str, function: Function, x: Tensor, *, of: Component | None = None) -> Tensor:
    """function(x), number by number."""
    y = t.made(x.rows, x.width, x, split=x.split)
    t.op(
        name,
        "elementwise",
        function,
        (x,),
        (y,),
        of=of,
        keeps=lambda tape, read: _one(tape, function, read),
        live_bytes=lambda room: (1 if room.compiled else taken_by_activation(function)) * room.of(y),
    )
    return y


def gated_activation(
    t: Recorder,
    name: str,
    function: Function,
    gate: Tensor,
    up: Tensor,
    *,
    clamped: Clamped | None = None,
    apart: bool = True,
    biased: bool = False,
) -> Tensor:
    """function(gate) * up, or clamped, gate * sigmoid(alpha * gate) * (up + shift) with both cut (gpt-oss), or up and
    what function gives of the gate (Step 3.5).

    apart: whether gate and up come out of products of their own, so that the gate is activated before there is an up.
    biased: whether a copy of their biases lies there for each row, as experts' in one grouped product do.
    """
    y = t.made(up.rows, up.width, gate, up, split=up.split)
    t.op(
        name,
        "elementwise",
        gated(function, clamped),
        (gate, up),
        (y,),
        keeps=lambda tape, *reads: _two(tape, function, *reads, clamped=clamped),
        live_bytes=lambda room: (1 if room.compiled else _taken(function, clamped, apart) + 2 * biased) * room.of(y),
    )
    return y


def _taken(function: Function, clamped: Clamped | None, apart: bool) -> int:
    """Tensors of the result's size beside gate and up: what the function takes, and the product. Clamped, both are cut;
    then there is the gate's share of itself, up plus one, and the product. Of a gate that is activated first both cut
    halves and the product are left, in place of gate and up where those come apart."""
    if clamped == "gate":
        return 5
    if clamped == "activated":
        return 1 if apart else 3
    own = taken_by_activation(function)
    return max(own - 1, 1) if apart else max(own, 2)


def taken_by_activation(function: Function) -> int:
    """How many tensors of its input's size an activation makes at once where transformers writes it out; see below."""
    return {"gelu_new": 3, "gelu_fast": 3, "quick_gelu": 2, "relu2": 2}.get(function, 1)


def glu(t: Recorder, name: str, x: Tensor, *, of: Component | None = None) -> Tensor:
    """x [rows, 2 * width], one half times the sigmoid of the other: [rows, width]. One kernel, which keeps x."""
    y = t.made(x.rows, exact_div(x.width, 2), x)

    def keeps(tape: Tape, read: Storage) -> Storage:
        return Storage(y.elements, tape.reads_input(read).dtype, read.grad, y.split)

    t.op(name, "elementwise", "swiglu", (x,), (y,), of=of, keeps=keeps)
    return y


def softcap(t: Recorder, name: str, x: Tensor) -> Tensor:
    """c * tanh(x / c): its result is kept."""
    y = t.made(x.rows, x.width, x, split=x.split)
    t.op(name, "elementwise", "softcap", (x,), (y,), keeps=lambda tape, read: tape.reads_result(read))
    return y


def gated_output(t: Recorder, name: str, x: Tensor, gate: Tensor) -> Tensor:
    """x * sigmoid(gate), one kernel."""
    y = t.made(x.rows, x.width, x, gate, split=x.split)

    def keeps(tape: Tape, read: Storage, gate: Storage) -> Storage:
        return tape.times(read, tape.reads_result(gate))

    t.op(name, "elementwise", "swiglu", (x, gate), (y,), keeps=keeps)
    return y


def gated_heads(t: Recorder, name: str, x: Tensor, gate: Tensor, *, soft: bool = False, wide: bool = False) -> Tensor:
    """x [rows, heads * width] times sigmoid(gate) [rows, heads], a number a head, in one kernel, where `wide` in fp32;
    or where `soft` times softplus(gate), in fp32."""
    y = t.made(x.rows, x.width, x, gate, split=x.split)

    def keeps(tape: Tape, read: Storage, gate: Storage) -> Storage:
        from_gate = tape.cast(gate, "fp32") if soft or wide else gate
        opened = tape.reads_input(from_gate) if soft else tape.reads_result(from_gate)
        return tape.times(read, tape.cast(opened, gate.dtype))

    t.op(name, "elementwise", "swiglu", (x, gate), (y,), keeps=keeps)
    return y


def _one(tape: Tape, function: Function, x: Storage) -> Storage:
    with tape.region("activation", x):
        return saved_by_activation(tape, function, x)


def _two(tape: Tape, function: Function, gate: Storage, up: Storage, *, clamped: Clamped | None) -> Storage:
    """One kernel keeps what it reads alone."""
    with tape.region("activation", up, gate):
        if tape.settings.fused:
            tape.keep(gate, "gate")
            tape.keep(up, "input")
            return tape.like(gate, up)
        if clamped is None:
            return tape.times(saved_by_activation(tape, function, gate), up)
        if clamped == "activated":
            cut = tape.like(tape.reads_input(saved_by_activation(tape, function, gate)))
            return tape.times(cut, tape.like(tape.reads_input(up)))
        gate, up = tape.reads_input(gate), tape.like(tape.reads_input(up))
        return tape.times(tape.times(gate, tape.reads_result(gate)), up)


_READ_BACK = {"gelu", "gelu_tanh", "silu", "relu6", "leaky_relu", "hardswish", "mish"}
"""Activations of one kernel whose backward reads what forward read."""


def saved_by_activation(tape: Tape, name: str, x: Storage) -> Storage:
    """An activation as transformers writes it: most are one kernel, some are spelt out operation by operation.

    gelu_new: 0.5 * x * (1 + tanh(c * (x + 0.044715 * x ** 3))). quick_gelu: x * sigmoid(1.702 * x). gelu_fast:
    0.5 * x * (1 + tanh(x * c * (1 + 0.044715 * x * x))). relu2: relu(x) squared.
    """
    if tape.settings.fused or name in _READ_BACK:
        return tape.reads_input(x)
    match name:
        case "relu" | "tanh" | "sigmoid":
            return tape.reads_result(x)
        case "relu2":
            return tape.power(tape.reads_result(x))
        case "quick_gelu":
            return tape.times(x, tape.reads_result(x))
        case "gelu_new":
            half, cubed = tape.like(x), tape.power(x)
            return tape.times(half, tape.like(tape.reads_result(tape.like(x, cubed))))
        case "gelu_fast":
            half, slope = tape.like(x), tape.like(tape.times(tape.like(x), x))
            return tape.times(half, tape.like(tape.reads_result(tape.times(tape.like(x), slope))))
    raise ValueError(f"activation: expected one that is written down here, found {name}")
