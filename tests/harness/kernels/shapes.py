"""Random shapes of attention, and how far a backend is from the same computed in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from harness.kernels import KERNELS, REFERENCES, AttentionShape

BOUNDS = {"fp64": 1e-12, "fp32": 1e-5, "fp16": 1e-2, "bf16": 1e-2}
"""Format -> the most that the norm of an error may be, relative to that of the result or of the output's gradient."""

LATENT = 5.0
"""How many times as much latent attention may be off in a format of 16 bits: expanded keys and values, scores and
weights are each rounded before the output is, and of few heads and queries what is summed may cancel (0.024 was the
largest of 1,500 shapes in bf16)."""


def bound(name: str, dtype: str) -> float:
    """The most that an error of the backend may be."""
    rounded = KERNELS[name].function == "latent" and dtype in ("fp16", "bf16")
    return BOUNDS[dtype] * (LATENT if rounded else 1)


@st.composite
def shapes(draw: st.DrawFn, **fixed: Any) -> AttentionShape:
    """Odd lengths, one token, groups of heads, caches, padding, windows, queries that see nothing."""
    batch, kv_heads, group = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2, 4]))
    seq = draw(st.sampled_from([1, 1, 2, 7, 16, 33, 40]))
    keys = max(seq + draw(st.sampled_from([0, 0, 0, 5, 31, -4])), 1)
    d_head = draw(st.sampled_from([3, 8, 16, 24]))
    lengths = st.tuples(*[st.integers(0, keys)] * batch)
    sizes: dict[str, Any] = {
        "batch": batch,
        "heads": kv_heads * group,
        "kv_heads": kv_heads,
        "seq": seq,
        "keys": keys,
        "d_head": d_head,
        "d_value": draw(st.sampled_from([d_head, d_head, 8])),
        "causal": draw(st.booleans()),
        "window": draw(st.none() | st.sampled_from([1, 5, 20])),
        "softcap": draw(st.none() | st.just(3.0)),
        "alibi": draw(st.booleans()),
        "lengths": draw(st.none() | lengths),
        "dtype": draw(st.sampled_from(["fp32", "bf16"])),
        "direction": draw(st.sampled_from(["forward", "backward"])),
    }
    return AttentionShape(**sizes | fixed)


def errors(name: str, shape: AttentionShape, device: str = "cpu", seed: int = 0, **options: Any) -> dict[str, float]:
    """||x - ref|| / max(||ref||, ||grad_out||) of the output and, backward, of the gradients of q, k and v.

    The reference reads the same rounded inputs in float64. Not finite values come out as infinity.
    """
    backend = KERNELS[name]
    reference = KERNELS[REFERENCES[backend.function]]
    inputs = backend.inputs(shape, device, seed)
    wide = tuple(x.detach().double().requires_grad_(x.requires_grad) for x in inputs)
    got = backend.forward(inputs[0], *backend.laid(*inputs[1:], shape), shape, **options)
    want = reference.forward(*wide, replace(shape, dtype="fp64"))
    assert got.shape == (shape.batch, shape.heads, shape.seq, shape.d_value)
    assert got.dtype == inputs[0].dtype
    found = {"output": _error(got, want, 0.0)}
    if shape.direction == "backward":
        generator = torch.Generator(device).manual_seed(seed + 1)
        grad = torch.randn(got.shape, generator=generator, device=device).to(got.dtype)
        ours = torch.autograd.grad(got, inputs, grad)
        theirs = torch.autograd.grad(want, wide, grad.double())
        scale = float(grad.double().norm())
        found |= {x: _error(a, b, scale) for x, a, b in zip("qkv", ours, theirs, strict=True)}
    return found


def _error(got: torch.Tensor, want: torch.Tensor, scale: float) -> float:
    if not torch.isfinite(got).all():
        return float("inf")
    got, want = got.detach().double(), want.detach()
    difference, size = float((got - want).norm()), max(float(want.norm()), scale)
    return difference / size if size else difference
