"""One vector a picture, by attention."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.attention import cross_attention
from calc.blocks.linear import gather, norm, residual
from calc.blocks.mlp import mlp
from calc.load import Load
from calc.op import Part, Weight
from calc.sizes import Size
from calc.spec import AttentionPool


def attention_pool(spec: AttentionPool, d_model: Size, load: Load) -> Part:
    """[batch, seq, d_model] -> [batch, d_model]: attention of one query, norm, MLP and their sum; nothing is cached."""
    one = replace(load, seq=1, context=0, decode=False)
    read = cross_attention(spec.attention, d_model, d_model, one, load.seq, keeps=False)
    asks = gather("probe", "other", (Weight("probe.weight", (d_model,), "other"),), load.batch, d_model, feeds=True)
    return Part(
        "pool",
        (
            asks,
            replace(read, name="attention"),
            norm("norm", spec.norm, (d_model,), load.batch),
            mlp(spec.channel, d_model, load.batch),
            residual("add", load.batch, d_model),
        ),
    )
