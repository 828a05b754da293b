"""Mixing each token with the one before it, as RWKV does ahead of its matrices."""

from __future__ import annotations

from dataclasses import replace

from calc.load import Load
from calc.op import Cache, Moves, Op, Part, Weight
from calc.sizes import Size


def token_shift(names: tuple[str, ...], d_model: Size, load: Load) -> Op:
    """x [batch, seq, d_model] -> for each of `names`, x + mix * (the token before - x), with a learned mix [d_model].

    Elementwise, 0 FLOPs. Cache: the last token's vector. Source: Peng et al. 2025 (arXiv:2503.14456), section 4.1.
    """
    one, last = load.tokens * d_model, load.batch * d_model
    return Op(
        "shift",
        "elementwise",
        "ssm",
        weights=tuple(Weight(name, (d_model,), "ssm") for name in names),
        cache=Cache(fixed=d_model),
        moves=lambda: Moves(one, len(names) * one, cache_reads=last if load.decode else 0, cache_writes=last),
    )


def shifted(channel: Part, d_model: Size, load: Load) -> Part:
    """A channel mixer that reads every token mixed with the one before it."""
    return replace(channel, body=(token_shift(("mix",), d_model, load), *channel.body))
