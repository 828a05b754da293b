"""Tokens in, logits out: the embedding tables and the head."""

from __future__ import annotations

from calc.blocks.linear import linear, norm
from calc.load import Load
from calc.op import Op, Part, Weight
from calc.sizes import Size
from calc.spec.model import Embedding, Head

TOKEN_TABLE = "/embedding.token.weight"


def embedding(spec: Embedding, vocab_size: Size, d_model: Size, load: Load) -> Part:
    """Look up tokens [batch, seq] -> [batch, seq, d_model], and learned positions if any; lookups are 0 FLOPs."""
    width = d_model if spec.d_embed is None else spec.d_embed
    body = [Op("token", "gather", "embedding", weights=(Weight(TOKEN_TABLE, (vocab_size, width), "embedding"),))]
    if spec.d_embed is not None:
        body.append(linear("project_in", load.tokens, width, d_model, "embedding"))
    if spec.n_positions is not None:
        table = Weight("position.weight", (spec.n_positions, d_model), "positional")
        body.append(Op("position", "gather", "positional", weights=(table,)))
    if spec.norm is not None:
        body.append(norm("norm", spec.norm, (d_model,)))
    return Part("embedding", tuple(body))


def head(spec: Head, embed: Embedding, vocab_size: Size, d_model: Size, load: Load) -> Part:
    """Logits [batch, seq, vocab_size] at every position: 2 * tokens * d_model * vocab_size FLOPs."""
    width = d_model if embed.d_embed is None else embed.d_embed
    body = [] if embed.d_embed is None else [linear("project_out", load.tokens, d_model, width, "lm_head")]
    table = TOKEN_TABLE if spec.tied else "weight"
    weights = [Weight(table, (vocab_size, width), "lm_head")]
    if spec.bias:
        weights.append(Weight("bias", (vocab_size,), "lm_head"))
    body.append(Op("logits", "linear", "lm_head", 2 * load.tokens * width * vocab_size, tuple(weights)))
    return Part("lm_head", tuple(body))
