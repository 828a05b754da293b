"""RWKV-4's time mixing: three projections of shifted tokens, a fading mean of values, a gate."""

from __future__ import annotations

from calc.blocks.surroundings import Surroundings
from calc.spec import Rwkv4
from calc.spec.load import Load
from calc.trace.primitives.fading_mean import fading_mean
from calc.trace.primitives.token_shift import token_shift
from calc.trace.shard import COLUMN, ROW
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def rwkv4(t: Trace, spec: Rwkv4, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """Peng et al. 2023 (arXiv:2305.13048), equations 11 to 17: 8 * d_model * d_inner FLOPs a token."""
    width = x.width if spec.d_inner is None else spec.d_inner
    mixed = token_shift(t, x, ("mix_k", "mix_v", "mix_r"), load)
    key, value, receptance = (
        t.linear(f"{name}_proj", each, width, shard=COLUMN) for name, each in zip("kvr", mixed, strict=True)
    )
    y = fading_mean(t, "wkv", key, value, load)
    gate = t.activation("receptance", "sigmoid", receptance)
    return t.linear("o_proj", t.times("gate", gate, y), x.width, shard=ROW)
