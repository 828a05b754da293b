"""Convolutions within a layer: a Conformer's module, DeBERTa-v2's beside its first layer, and those that shorten."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.attention import attention
from calc.blocks.surroundings import Surroundings
from calc.sizes import ceil_div
from calc.spec import ConvolutionModule, LayerGroup, Shortened
from calc.spec.load import Load
from calc.trace.op import Moves
from calc.trace.primitives.arithmetic import clamped
from calc.trace.primitives.convolution import steps
from calc.trace.primitives.gather import constant
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def convolution_module(t: Trace, spec: ConvolutionModule, x: Tensor, load: Load) -> Tensor:
    """x [tokens, d_model] -> the same, 2 * tokens * d_model * (3 * d_model + kernel) FLOPs (Gulati et al. 2020,
    arXiv:2005.08100, section 2.2): twice as wide and gated, one kernel a channel, a norm, and back."""
    d_model, tokens, dense = x.width, x.rows, spec.cut is not None
    if dense:
        x = t.linear("pointwise_in", x, 2 * d_model)
    else:
        x = t.convolution("pointwise_in", x, 2 * d_model, (1,), tokens, bias=spec.bias)
    x = t.glu("glu", x)
    if not spec.padded_alike:
        # The zeros around each sequence make a copy; no kernel is counted for it.
        x = t.joined(x, rows=load.batch * (load.seq + spec.kernel - 1), width=d_model)
    x = t.convolution("depthwise", x, d_model, (spec.kernel,), tokens, groups=d_model, bias=spec.bias)
    x = clamped(t, x, constant(t, 1, 2)) if dense else x
    x = t.batch_norm("batch_norm", x) if spec.norm is None else t.norm("layer_norm", spec.norm, x)
    x = t.activation("activation", spec.activation, x)
    if dense:
        return t.linear("pointwise_out", x, d_model)
    return t.convolution("pointwise_out", x, d_model, (1,), tokens, bias=spec.bias)


def thinned(t: Trace, every: int, x: Tensor, load: Load) -> tuple[Tensor, Load]:
    """Of x [batch * seq, d_model] every so many-th vector, [batch * ceil(seq / every), d_model], those of padding as
    zeros, and the load of these. Which are padding is kept, of all of them."""
    after = replace(load, seq=ceil_div(load.seq, every))
    y = t.made(after.tokens, x.width, x, split=x.split)

    def keeps(tape: Tape, read: Storage) -> Storage:
        if read.grad:
            tape.keep(Storage(load.tokens, "bool", False, "none"), "padding")
        return Storage(y.elements, read.dtype, read.grad, read.split)

    t.op(
        "thinned",
        "elementwise",
        "copy",
        (x,),
        (y,),
        of="other",
        moves=lambda: Moves(y.elements, y.elements),
        keeps=keeps,
    )
    return y, after


def side_convolution(t: Trace, group: LayerGroup, x: Tensor, around: Surroundings) -> Tensor:
    """x [tokens, d_model], what the layer gives -> the same, with the convolution of what entered the stack:
    2 * tokens * d_model * d_model / groups * kernel FLOPs."""
    spec, read = group.beside, around.embedded
    assert spec is not None
    assert read is not None
    with t.part("beside", read, of="other") as out:
        y = t.convolution("convolution", read, x.width, (spec.kernel,), x.rows, groups=spec.groups)
        if group.residual_dropout:
            y = t.dropout("dropout", y)
        out.append(t.activation("activation", spec.activation, y))
    return t.norm("beside_norm", group.norm, t.add("beside_add", x, out[0]))


def shortened(
    t: Trace, group: LayerGroup, spec: Shortened, x: Tensor, load: Load, around: Surroundings
) -> tuple[Tensor, Load]:
    """x [batch * seq, d_model] -> [batch * steps, d_model], and the load of these steps: of
    floor((seq + 2 * padding - kernel) / stride) + 1 of them; 8 * batch * steps * d_model^2 * kernel FLOPs of both
    convolutions, and attention's."""
    after = replace(load, seq=steps(load.seq, spec.kernel, spec.stride, spec.padding))
    with t.part(f"shortened.{group.name}", x, of="attention") as out:
        kept, read = (_strided(t, name, group, spec, x, after) for name in ("residual", "attention"))
        with t.part("attention", read, of="attention") as within:
            within.append(attention(t, spec.attention, read, after, replace(around, by_channel=True)))
        out.append(t.add("add", within[0], kept))
    return out[0], after


def _strided(t: Trace, name: str, group: LayerGroup, spec: Shortened, x: Tensor, after: Load) -> Tensor:
    y = t.norm(f"{name}_norm", group.norm, x)
    y = t.convolution(f"{name}_conv", y, 2 * x.width, (spec.kernel,), after.tokens)
    return t.glu(f"{name}_glu", y)
