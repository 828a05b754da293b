"""Hyper-connections: several residual streams that each block reads from and writes to by learned mixtures.

Source: manifold-constrained hyper-connections (Xie et al. 2026); transformers 5.23, DeepseekV4HyperConnection.
"""

from __future__ import annotations

from calc.blocks.linear import linear
from calc.op import Op, Part, Weight
from calc.sizes import Size


def connection(name: str, n_streams: Size, d_model: Size, tokens: Size) -> Part:
    """Streams [tokens, n_streams, d_model] -> what the block reads [tokens, d_model], and the mixed streams.

    All streams of a token, normed side by side, give n_streams weights to read with, as many to write with, and a
    matrix [n_streams, n_streams] to mix with: 2 * tokens * n_streams * d_model * (2 + n_streams) * n_streams FLOPs, and
    2 * tokens * n_streams^2 * d_model to mix. Reading and writing are sums of scaled streams, 0 FLOPs.
    """
    given = (2 + n_streams) * n_streams
    own = (Weight("base", (given,), "other"), Weight("scale", (3,), "other"))
    body = (
        linear("weights", tokens, n_streams * d_model, given, "other"),
        Op("doubly_stochastic", "elementwise", "other", weights=own),
        Op("mix", "attention", "other", 2 * tokens * n_streams * n_streams * d_model),
    )
    return Part(name, body)


def collapse(n_streams: Size, d_model: Size, tokens: Size) -> Part:
    """Streams [tokens, n_streams, d_model] -> [tokens, d_model], behind the last layer."""
    own = (Weight("base", (n_streams,), "other"), Weight("scale", (1,), "other"))
    body = (
        linear("weights", tokens, n_streams * d_model, n_streams, "other"),
        Op("sum", "elementwise", "other", weights=own),
    )
    return Part("collapse", body)
