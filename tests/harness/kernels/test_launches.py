"""What predictions say that PyTorch runs for attention in the open is what it runs, launch by launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from calc.attention import Blocks, flash, standard
from calc.attention.latent import latent
from calc.time.attention_calls.backends import FUSED, TIMED, kernels_of
from calc.time.attention_calls.written_out import WRITTEN_OUT
from harness.kernels import KERNELS, AttentionShape
from harness.kernels.inputs import random_inputs

VIEWS = {"view", "transpose", "slice", "select", "unsqueeze", "squeeze", "expand", "_unsafe_view", "permute", "detach"}
VIEWS |= {"split", "split_with_sizes", "as_strided", "alias", "t"}
PLAIN = AttentionShape(batch=2, heads=4, seq=256, d_head=64, dtype="fp32")
SHAPES = {
    "plain": PLAIN,
    "causal": replace(PLAIN, causal=True),
    "groups": replace(PLAIN, causal=True, kv_heads=1),
    "window": replace(PLAIN, causal=True, window=50),
    "cache": replace(PLAIN, seq=128, keys=256, causal=True),
    "half": replace(PLAIN, causal=True, dtype="bf16"),
}
LATENT = AttentionShape(
    batch=4, heads=8, seq=1, keys=512, d_head=192, d_value=128, kv_rank=512, d_rope=64, dtype="fp32"
)


class Count(TorchDispatchMode):
    """ATen operators that are no views: how many, and the bytes of all their tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.launches = self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ not in VIEWS:
            self.launches += 1
            self.bytes += sum(each.nbytes for each in (*args, out) if isinstance(each, torch.Tensor))
        return out


def counted(name: str, shape: AttentionShape) -> Count:
    found = Count()
    inputs = random_inputs(shape, "cpu", 0)
    run: Callable[[], Any] = lambda: KERNELS[name].forward(*inputs, shape)  # noqa: E731
    if shape.direction == "backward":
        out = run()
        gradient = torch.ones_like(out)
        with found:
            torch.autograd.grad(out, inputs, gradient)
    else:
        with torch.no_grad(), found:
            run()
    return found


# (launches, bytes): by what part predictions may be off; of `tiled` sums over rows are left out.
NEAR = {"reference": (0.01, 0.05), "sdpa_math": (0.15, 0.12), "tiled": (0.3, 0.3)}


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("name", NEAR)
def test_launches_and_bytes_are_those_that_run(name: str, case: str, direction: Any) -> None:
    shape = SHAPES[case].going(direction)
    run, kernels = counted(name, shape), kernels_of(name, shape, direction, "cpu")
    launches, moved = NEAR[name]
    assert sum(each.calls for each in kernels) == pytest.approx(run.launches, rel=launches)
    assert sum(each.calls * each.bytes for each in kernels) == pytest.approx(run.bytes, rel=moved)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("name", ["mla_naive", "mla_absorbed"])
def test_latent_attention_in_the_open(name: str, batch: int) -> None:
    shape = replace(LATENT, batch=batch)
    run, kernels = counted(name, shape), kernels_of(name, shape, "forward", "cpu")
    assert sum(each.calls for each in kernels) == pytest.approx(run.launches, rel=0.15)
    assert sum(each.calls * each.bytes for each in kernels) == pytest.approx(run.bytes, rel=0.15)
    assert sum(each.calls * each.flops for each in kernels) == latent(shape, name == "mla_absorbed").flops


@pytest.mark.parametrize("case", SHAPES)
def test_flops_are_those_of_the_count(case: str) -> None:
    def flops(name: str, shape: AttentionShape) -> float:
        return sum(
            each.calls * each.flops
            for direction in ("forward", "backward")
            for each in kernels_of(name, shape, direction, "cpu")
        )

    shape = SHAPES[case].going("backward")
    assert flops("reference", shape) == standard(shape).flops
    assert flops("sdpa_math", shape) == standard(shape).flops
    assert flops("tiled", shape) == pytest.approx(flash(shape, Blocks(64, 64)).flops)


def test_every_backend_that_is_timed_is_in_the_registry() -> None:
    assert set(KERNELS) - {*TIMED, *WRITTEN_OUT} == {"linear", "linear_reference"}
    assert {*TIMED, *WRITTEN_OUT} <= set(KERNELS)
    assert set(FUSED).isdisjoint(WRITTEN_OUT)
