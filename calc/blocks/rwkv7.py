"""RWKV-7's time mixing: projections and bottlenecks of shifted tokens, and its rule in chunks."""

from __future__ import annotations

from calc.blocks.surroundings import Surroundings
from calc.sizes import Size
from calc.spec import Rwkv7
from calc.spec.load import Load
from calc.trace.functions import Function
from calc.trace.primitives.rwkv_keys import bonus, gated, rule_inputs, value_mix
from calc.trace.primitives.rwkv_rule import rwkv_rule
from calc.trace.primitives.token_shift import token_shift
from calc.trace.shard import COLUMN, ROW
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

MIXES = ("mix_r", "mix_w", "mix_k", "mix_v", "mix_a", "mix_g")
"""A learned mix of each token with the one before it for receptance, decay, key, value, learning rate and gate."""


def rwkv7(t: Trace, spec: Rwkv7, x: Tensor, load: Load, around: Surroundings) -> Tensor:
    """Peng et al. 2025 (arXiv:2503.14456), section 4.1 and appendix F.

    Receptances, keys, values, decays, learning rates and gates [batch, n_heads, seq, d_head]; the state of a head is
    [d_head, d_head]. Later layers mix the first one's values into theirs.
    """
    width = spec.n_heads * spec.d_head

    def bottleneck(name: str, x: Tensor, rank: Size, act: Function | None = None, *, bias: bool = True) -> Tensor:
        small = t.linear(f"{name}_down", x, rank, split="none")
        small = small if act is None else t.activation(f"{name}_act", act, small)
        return t.linear(f"{name}_up", small, width, bias=bias, shard=COLUMN)

    r, w, k, v, a, g = token_shift(t, x, MIXES, load)
    receptance, key, value = (
        t.linear(f"{name}_proj", each, width, shard=COLUMN) for name, each in zip("rkv", (r, k, v), strict=True)
    )
    decay = bottleneck("decay", w, spec.decay_rank, "tanh")
    rate = bottleneck("rate", a, spec.rate_rank)
    if spec.value_rank is None:
        around.values = value
    else:
        assert around.values is not None
        value = value_mix(t, value, around.values, bottleneck("value", v, spec.value_rank))
    gate = bottleneck("gate", g, spec.gate_rank, "sigmoid", bias=False)
    read = rule_inputs(t, spec, receptance, key, value, rate, decay, load)
    y = t.norm("norm", spec.norm, rwkv_rule(t, spec, read, load), heads=spec.n_heads, shard=COLUMN)
    y = gated(t, x, bonus(t, spec, y, read), gate)
    return t.linear("o_proj", y, x.width, shard=ROW)
