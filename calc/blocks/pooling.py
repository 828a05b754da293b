"""One vector a picture, by attention."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.attention import cross_attention
from calc.blocks.mlp import mlp
from calc.blocks.surroundings import Surroundings
from calc.spec import AttentionPool
from calc.spec.load import Load
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def attention_pool(t: Trace, spec: AttentionPool, x: Tensor, load: Load) -> Tensor:
    """[batch * seq, d_model] -> [batch, d_model]: attention of one query, norm, MLP, their sum; nothing is cached."""
    one = replace(load, seq=1, context=0, decode=False)
    with t.part("pool", x, of="other") as out:
        probe = t.weight("probe.weight", x.width)
        asks = t.parameters("probe", (probe,), load.batch, x.width)
        with t.part("attention", asks, x, of="attention") as made:
            found = cross_attention(t, spec.attention, asks, one, Surroundings(x, load.seq), keeps=False)
            made.append(found)
        normed = t.norm("norm", spec.norm, found)
        with t.part("mlp", normed, of="mlp") as made:
            y = mlp(t, spec.channel, normed)
            made.append(y)
        y = t.add("add", found, y)
        out.append(y)
    return y
