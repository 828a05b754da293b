"""The feed-forward block, plain and gated."""

from __future__ import annotations

from calc.blocks.surroundings import Surroundings
from calc.sizes import Size
from calc.spec import Mlp
from calc.spec.load import Load
from calc.trace.primitives.linear import Spread
from calc.trace.primitives.magnitude import sparse_gate
from calc.trace.primitives.token_shift import token_shift
from calc.trace.primitives.xielu import xielu
from calc.trace.shard import COLUMN, ROW
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def dense(t: Trace, spec: Mlp, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """The block as a layer has it: each token mixed with the one before it, where that is so, ahead of all else."""
    if spec.receptance:
        x, receptance = token_shift(t, x, ("mix", "mix_receptance"), load)
        gate = t.activation("receptance", "sigmoid", t.linear("receptance_proj", receptance, x.width))
        return t.times("gate", gate, mlp(t, spec, x))
    if spec.shift:
        (x,) = token_shift(t, x, ("mix",), load)
    return mlp(t, spec, x)


def mlp(t: Trace, spec: Mlp, x: Tensor, *, spread: Spread | None = None) -> Tensor:
    """Plain: down(act(up(x))), 4 * tokens * d_model * d_ff FLOPs. Gated: down(act(gate(x)) * up(x)), 1.5 times that.

    spread: how experts share the rows of x, each with matrices of its own.
    """
    d_ff: Size = 4 * x.width if spec.d_ff is None else spec.d_ff
    clamped = None if spec.clamp is None else "activated" if spec.clamp.activated else "gate"
    module = None if spread is None else "moe_act"

    def up(name: str, width: Size) -> Tensor:
        return t.linear(name, x, width, bias=spec.bias, shard=COLUMN, spread=spread)

    if spec.activation == "xielu":
        y = xielu(t, "activation", up("up_proj", d_ff))
    elif spec.gated:
        grouped = spread is not None
        how = {"clamped": clamped, "apart": not spec.fused and not grouped, "biased": grouped and spec.bias}
        if spec.fused:
            both = up("gate_up_proj", 2 * d_ff)
            gate, value = both.columns(d_ff), both.columns(d_ff)
        else:
            gate, value = up("gate_proj", d_ff), up("up_proj", d_ff)
        if spec.gate_scale != 1.0:
            gate = t.scaled("gate_scale", gate)
        if spec.sparsity:
            gate = sparse_gate(t, "sparse_gate", gate)
        with t.module(module):
            y = t.gated_activation("activation", spec.activation, gate, value, **how)
        if clamped == "activated" and spread is None:
            # Both cut halves have names, beside which the product is projected.
            t.hold(gate, value)
    else:
        read = up("up_proj", d_ff)
        with t.module(module):
            y = t.activation("activation", spec.activation, read)
    if spec.inner_norm is not None:
        y = t.norm("inner_norm", spec.inner_norm, y, across=True)
    if spec.dropout:
        y = t.dropout("dropout", y)
    down_bias = spec.bias if spec.down_bias is None else spec.down_bias
    return t.linear("down_proj", y, x.width, bias=down_bias, shard=ROW, spread=spread, as_weight=spec.as_weight)
