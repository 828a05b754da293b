"""What a Conformer adds to a layer: its convolution module, and scores of distances as in Transformer-XL."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.convolution import convolution
from calc.blocks.linear import elementwise, linear, norm, product
from calc.functions import Matmul
from calc.load import Load
from calc.op import Op, Part, Weight
from calc.sizes import Size
from calc.spec import ConvolutionModule, Norm


def convolution_module(spec: ConvolutionModule, d_model: Size, tokens: Size) -> Part:
    """x [tokens, d_model] -> the same, 2 * tokens * d_model * (3 * d_model + kernel) FLOPs (Gulati et al. 2020)."""
    one = tokens * d_model
    normed = norm("batch_norm", Norm(kind="layernorm", bias=True), (d_model,), tokens, feeds=True)
    body = (
        convolution("pointwise_in", tokens, d_model, 2 * d_model, (1,), tokens, bias=spec.bias),
        elementwise("glu", "other", "swiglu", 2 * one, one),
        convolution("depthwise", tokens, d_model, d_model, (spec.kernel,), tokens, groups=d_model, bias=spec.bias),
        replace(normed, function="batchnorm"),
        elementwise("activation", "other", "silu", one, one),
        convolution("pointwise_out", tokens, d_model, d_model, (1,), tokens, bias=spec.bias),
    )
    return Part("convolution", body)


def distance_scores(load: Load, d_model: Size, heads: Size, d_head: Size) -> tuple[Op, Op]:
    """A projection of the sinusoids of all 2 * seq - 1 distances, and every query's product with each of them.

    Two learned vectors a head are added to the queries, one before these products and one before those with the keys
    (Dai et al. 2019, arXiv:1901.02860, section 3.3). The projection is the same for all sequences and runs once.
    """
    distances = 0 if load.decode else 2 * load.seq - 1
    project = linear("pos_proj", distances, d_model, heads * d_head, "positional")
    biases = tuple(Weight(f"pos_bias_{name}", (heads, d_head), "positional") for name in ("u", "v"))
    products = 2 * load.batch * heads * load.seq * distances * d_head
    shape = Matmul(load.seq, distances, d_head, load.batch * heads, weighed=False)
    once = heads * d_head * (load.tokens + distances)
    return (
        replace(project, input_grad=False, rows=None),
        product("distance_scores", "positional", products, shape, weights=biases).moving(reads=once),
    )
