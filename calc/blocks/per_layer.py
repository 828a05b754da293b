"""Inputs of their own for every layer: the tables and matrices before the layers, and the small block in each."""

from __future__ import annotations

from dataclasses import dataclass

from calc.sizes import Size
from calc.spec import Norm, PerLayerInputs, Stack
from calc.trace.functions import gated
from calc.trace.primitives.activation import saved_by_activation
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class LayerInputs:
    """What all layers read beside the stream: the description, and the inputs of all of them in one tensor."""

    spec: PerLayerInputs
    all: Tensor


def layer_inputs(t: Trace, spec: PerLayerInputs, stack: Stack, x: Tensor) -> LayerInputs:
    """Vectors [tokens, n_layers, d_per_layer]: looked up, plus 2 * tokens * d_model * n_layers * d_per_layer FLOPs.

    Which rows are looked up is kept already, by the main table.
    """
    n_layers: Size = 0
    for group in stack.layers:
        n_layers = n_layers + group.count
    width = n_layers * spec.d_per_layer
    with t.part("per_layer", x, of="embedding") as out:
        table = t.weight("token.weight", spec.vocab_size, width)
        looked_up = t.parameters("token", (table,), x.rows, width)
        projected = t.norm("norm", stack.layers[0].norm, t.linear("project", x, width), each=n_layers)
        made = t.add("sum", projected, looked_up, of="embedding")
        shared = made.view(made.rows, made.width)
        t.silent("shared", (made,), shared, _for_all_layers)
        out.append(shared)
    return LayerInputs(spec, shared)


def _for_all_layers(tape: Tape, made: Storage) -> Storage:
    """Layers keep it once."""
    return Storage(made.elements, made.dtype, made.grad, "stream", "inputs of all layers")


def layer_input(t: Trace, inputs: LayerInputs, x: Tensor, plain: Norm) -> Tensor:
    """x + norm(up(act(gate(x)) * input)) for one layer."""
    return t.add("per_layer_add", x, own_vector(t, inputs, x, plain))


def own_vector(t: Trace, inputs: LayerInputs, x: Tensor, plain: Norm) -> Tensor:
    """norm(up(act(gate(x)) * input)) for one layer: 4 * tokens * d_model * d_per_layer FLOPs."""
    spec = inputs.spec
    with t.part("per_layer", x, of="mlp") as out:
        gate = t.linear("gate_proj", x, spec.d_per_layer)
        own = inputs.all.columns(spec.d_per_layer)
        y = t.made(gate.rows, gate.width, gate, own)
        t.op(
            "activation",
            "elementwise",
            gated(spec.activation),
            (gate, own),
            (y,),
            keeps=lambda tape, gate, every: _saved(tape, spec, gate, every),
            operands=(gate, inputs.all),
        )
        out.append(t.linear("up_proj", y, x.width))
    return t.norm("per_layer_post_norm", plain, out[0])


def _saved(tape: Tape, spec: PerLayerInputs, gate: Storage, every: Storage) -> Storage:
    """The input is a part of those of all layers, all of which stay with it."""
    gate = saved_by_activation(tape, spec.activation, gate)
    if every.grad:
        tape.keep(gate, "factor")
    if gate.grad:
        tape.keep(every, "inputs of all layers")
    return tape.like(gate, every)
