"""The kernels that PyTorch runs where nothing is fused, counted on the reference models as they run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from calc import Shorthand
from calc.blocks.build import build
from calc.quantities.traffic import forward_traffic
from calc.spec import Attention, GateClamp, Mlp, ModelSpec, Norm
from calc.spec.load import Load
from calc.spec.run import Run
from calc.trace.eager import EAGER_KERNELS, eager
from calc.trace.functions import Function
from calc.trace.op import Op
from calc.trace.part import leaves
from reference_models import build as build_model
from reference_models.blocks.attend import attend
from reference_models.blocks.linear import ACTIVATIONS, NormLayer, Xielu, softcap
from reference_models.blocks.mlp import FeedForward
from reference_models.blocks.positions import turn
from reference_models.step import Step
from tests.moving import Ran, moving

DTYPES = (torch.bfloat16, torch.float32)
SMALL = 0.03
"""What tables of cosines and sines, statistics of rows, weights of norms and masks may add to the bytes told."""


def gate(**fields: Any) -> Callable[[Tensor], Tensor]:
    block = FeedForward(Mlp(d_ff=8, gated=True, **fields), 8)
    return lambda x: block._gated(x, x.detach())


NORMS = {
    (kind, dtype): NormLayer(Norm(kind=kind, bias=kind == "layernorm"), (512,)).to(dtype)
    for kind in ("layernorm", "rmsnorm")
    for dtype in DTYPES
}
XIELU = {dtype: Xielu().to(dtype) for dtype in DTYPES}
FUNCTIONS: dict[Function, Callable[[Tensor], Tensor]] = {
    "layernorm": lambda x: NORMS["layernorm", x.dtype](x),
    "rmsnorm": lambda x: NORMS["rmsnorm", x.dtype](x),
    "add": lambda x: x + x.detach(),
    **{name: ACTIVATIONS[name] for name in ("gelu", "gelu_new", "gelu_tanh", "gelu_fast", "quick_gelu")},
    **{name: ACTIVATIONS[name] for name in ("relu", "relu2", "relu6", "leaky_relu")},
    **{name: ACTIVATIONS[name] for name in ("silu", "hardswish", "mish", "tanh", "sigmoid")},
    "xielu": lambda x: XIELU[x.dtype](x),
    "swiglu": gate(activation="silu"),
    "swiglu_clamped": gate(clamp=GateClamp()),
    "swiglu_cut": gate(clamp=GateClamp(activated=True), activation="silu"),
    "geglu": gate(activation="gelu_tanh"),
    "geglu_new": gate(activation="gelu_new"),
    "softcap": lambda x: softcap(x, 50.0),
    "rope": lambda x: turn(x[:, None], *x[:1, None].clone().expand(2, 1, 1, 256, 512), interleaved=False),
}
MAKING = ("ones", "zeros", "clone", "fill_", "zero_")
"""Kernels that only make what a function is called with."""


def heads(n: int, dtype: torch.dtype) -> Tensor:
    """[2, n, 128, 64], as a projection's result looks in which heads lie side by side."""
    return torch.randn(2, 128, n, 64, dtype=dtype).transpose(1, 2)


def attended(kv_heads: int, dtype: torch.dtype) -> list[Ran]:
    spec = Attention(n_heads=8, n_kv_heads=kv_heads, position="none")
    q, k, v = heads(8, dtype), heads(kv_heads, dtype), heads(kv_heads, dtype)
    step = Step(positions=torch.arange(128)[None], stream=q)
    mask = step.mask(128, torch.arange(128), causal=True)
    return moving(lambda: attend(spec, q, k, v, step, mask=mask).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_without_products(function: Function, dtype: torch.dtype) -> None:
    x = torch.randn(2, 256, 512, dtype=dtype)
    ran = [each for each in moving(lambda: FUNCTIONS[function](x)) if each.name not in MAKING]
    told = EAGER_KERNELS[function].narrow if dtype == torch.bfloat16 else EAGER_KERNELS[function].wide
    assert len(ran) == told.kernels
    found = sum(each.bytes for each in ran) / x.numel()
    assert told.bytes <= found <= told.bytes * (1 + (0.15 if function == "rope" else SMALL))


def _power_cast(x: Tensor) -> Tensor:
    """GELU in tanh's form, its power in float32 as autocast on a GPU has it."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x.float(), 3.0))))


@pytest.mark.parametrize("function", ["gelu_new", "geglu_new"])
def test_powers_that_autocast_takes_to_float32(function: Function) -> None:
    """CUDA's list has `pow`, and what meets its result is promoted (torch's AMP documents); here it is cast by hand."""
    x, up = (torch.randn(2, 256, 512, dtype=torch.bfloat16) for _ in "xu")
    ran = moving(lambda: _power_cast(x) * up if function == "geglu_new" else _power_cast(x))
    cast = EAGER_KERNELS[function].cast
    assert cast is not None
    assert len(ran) == cast.kernels
    assert sum(each.bytes for each in ran) / x.numel() == pytest.approx(cast.bytes, rel=SMALL)


def test_the_table_has_nothing_that_is_not_measured() -> None:
    assert {*FUNCTIONS, "softmax"} == set(EAGER_KERNELS)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kv_heads", [8, 2])
def test_attention_in_the_open(kv_heads: int, dtype: torch.dtype) -> None:
    sizes: dict[str, Any] = {"d_model": 512, "n_layers": 1, "n_heads": 8, "n_kv_heads": kv_heads, "vocab_size": 8}
    tree = build(Shorthand(**sizes, max_seq_len=128).expand(), Load(2, 128))
    core = [leaf.op for leaf in leaves(tree) if leaf.op.function in ("scores", "softmax", "values")]
    told = [eager(op, dtype.itemsize) for op in core]
    making_mask = ("zeros_like", "bitwise_not", "masked_fill")
    ran = [each for each in attended(kv_heads, dtype) if each.name not in making_mask]
    assert len(ran) == sum(each.kernels for each in told)
    found = sum(each.bytes for each in ran)
    assert sum(each.bytes for each in told) == pytest.approx(found, rel=SMALL)


def of(kind: str) -> ModelSpec:
    """A model small enough to run at once, and wide enough for masks and weights of norms to be little."""
    shared: dict[str, Any] = {"d_model": 256, "n_layers": 2, "n_heads": 8, "vocab_size": 500, "max_seq_len": 128}
    if kind == "gpt2":
        return Shorthand(**shared, activation="gelu_new", norm="layernorm", position="learned").expand()
    llama: dict[str, Any] = {
        "n_kv_heads": 2,
        "gated": True,
        "activation": "silu",
        "norm": "rmsnorm",
        "position": "rope",
    }
    return Shorthand(**shared, **llama).expand()


def told(op: Op, width: int) -> tuple[int, int]:
    """(kernels, bytes) of one call, weights among them."""
    passes = eager(op, width)
    return passes.kernels, passes.bytes + width * op.weights_read


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_model_as_it_runs(kind: str, dtype: torch.dtype) -> None:
    """Within 4 % of all bytes that aten kernels move, of which masks and angles are not told."""
    spec = of(kind)
    model = build_model(spec).to(dtype)
    tokens = torch.zeros(4, 128, dtype=torch.long)
    found = sum(each.bytes for each in moving(lambda: model(tokens)))
    counted = sum(leaf.calls * told(leaf.op, dtype.itemsize)[1] for leaf in leaves(build(spec, Load(4, 128))))
    assert counted == pytest.approx(found, rel=0.04)


@pytest.mark.parametrize(("kind", "least", "most"), [("gpt2", 1.0, 2.5), ("llama", 1.0, 2.5)])
def test_what_one_kernel_an_op_would_save(kind: str, least: float, most: float) -> None:
    """PyTorch moves more than one kernel for each op would: norms, activations and rotary positions written out."""
    spec = of(kind)
    model = build_model(spec)
    found = sum(each.bytes for each in moving(lambda: model(torch.zeros(4, 128, dtype=torch.long))))
    ideal = sum(forward_traffic(spec, Run(batch=4, seq=128, dtype="fp32", execution="eager")).values())
    assert least < found / ideal < most
