"""Hyper-connections: several residual streams that each block reads from and writes to by learned mixtures.

Source: manifold-constrained hyper-connections (Xie et al. 2026); transformers 5.23, DeepseekV4HyperConnection.
"""

from __future__ import annotations

from calc.blocks.linear import elementwise, linear, product
from calc.functions import Matmul
from calc.op import Part, Weight
from calc.sizes import Size


def connection(name: str, n_streams: Size, d_model: Size, tokens: Size) -> Part:
    """Streams [tokens, n_streams, d_model] -> what the block reads [tokens, d_model], and the mixed streams.

    All streams of a token, normed side by side, give n_streams weights to read with, as many to write with, and a
    matrix [n_streams, n_streams] to mix with: 2 * tokens * n_streams * d_model * (2 + n_streams) * n_streams FLOPs, and
    2 * tokens * n_streams^2 * d_model to mix. Reading and writing are sums of scaled streams, 0 FLOPs.
    """
    given = (2 + n_streams) * n_streams
    own = (Weight("base", (given,), "other"), Weight("scale", (3,), "other"))
    all_of_it = tokens * n_streams * d_model
    mixed = Matmul(n_streams, d_model, n_streams, tokens, weighed=False)
    body = (
        linear("weights", tokens, n_streams * d_model, given, "other"),
        elementwise("doubly_stochastic", "other", "other", tokens * given, tokens * given, weights=own),
        elementwise("read", "other", "scale", all_of_it + tokens * n_streams, tokens * d_model, from_chain=0),
        product("mix", "other", 2 * tokens * n_streams * n_streams * d_model, mixed),
        elementwise("join", "other", "add", all_of_it + tokens * (d_model + n_streams), all_of_it),
    )
    return Part(name, body)


def collapse(n_streams: Size, d_model: Size, tokens: Size) -> Part:
    """Streams [tokens, n_streams, d_model] -> [tokens, d_model], behind the last layer."""
    own = (Weight("base", (n_streams,), "other"), Weight("scale", (1,), "other"))
    body = (
        linear("weights", tokens, n_streams * d_model, n_streams, "other"),
        elementwise("sum", "other", "other", tokens * n_streams * (d_model + 1), tokens * d_model, weights=own),
    )
    return Part("collapse", body)
