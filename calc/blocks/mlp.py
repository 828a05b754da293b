"""The feed-forward block, plain and gated."""

from __future__ import annotations

from calc.blocks.linear import linear, mapped
from calc.functions import gated
from calc.op import Component, Part
from calc.sizes import Size
from calc.spec import Mlp


def mlp(
    spec: Mlp,
    d_model: Size,
    tokens: Size,
    *,
    name: str = "mlp",
    component: Component = "mlp",
) -> Part:
    """Plain: down(act(up(x))), 4 * tokens * d_model * d_ff FLOPs. Gated: down(act(gate(x)) * up(x)), 1.5 times that."""
    d_ff = 4 * d_model if spec.d_ff is None else spec.d_ff
    if spec.gated and spec.fused:
        up = [linear("gate_up_proj", tokens, d_model, 2 * d_ff, component, bias=spec.bias)]
    else:
        names = ("gate_proj", "up_proj") if spec.gated else ("up_proj",)
        up = [linear(n, tokens, d_model, d_ff, component, bias=spec.bias) for n in names]
    down = linear("down_proj", tokens, d_ff, d_model, component, bias=spec.bias)
    function = gated(spec.activation, spec.clamp is not None) if spec.gated else spec.activation
    act = mapped("activation", component, function, tokens, d_ff, operands=2 if spec.gated else 1)
    return Part(name, (*up, act, down))
