"""Tokens in, logits out: the embedding tables, the heads, and the dense layers before them."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.linear import added, elementwise, gather, linear, norm
from calc.load import Load
from calc.op import Op, Part, Weight
from calc.sizes import Size, exact_div
from calc.spec import Embedding, Head, Projection

TOKEN_TABLE = "/embedding.token.weight"


def tokens(spec: Embedding, vocab_size: Size, d_model: Size, load: Load) -> tuple[Part, Size]:
    """Look up tokens [batch, seq] -> [batch, seq, d_model], and learned positions if any; lookups are 0 FLOPs."""
    width = d_model if spec.d_embed is None else spec.d_embed
    table = TOKEN_TABLE if spec.shared else "token.weight"
    of_tokens = (Weight(table, (vocab_size, width), "embedding"),)
    body = [gather("token", "embedding", of_tokens, load.tokens, width, feeds=True)]
    project = linear("project_in", load.tokens, width, d_model, "embedding", bias=spec.project_bias)
    if spec.d_embed is not None and spec.project == "tokens":
        body.append(project)
        width = d_model
    if spec.n_positions is not None:
        rows = Weight("position.weight", (spec.n_positions, width), "positional", spec.trained_positions)
        body.append(gather("position", "positional", (rows,), load.seq, width, feeds=True))
        body.append(added("position_add", "positional", load.tokens, width, load.seq * width))
    if spec.sinusoidal:
        body.append(added("sinusoids", "positional", load.tokens, width, 0))
    if spec.n_token_types is not None:
        rows = Weight("token_type.weight", (spec.n_token_types, width), "embedding")
        body.append(gather("token_type", "embedding", (rows,), load.tokens, width, feeds=True))
        body.append(added("token_type_add", "embedding", load.tokens, width, load.tokens * width))
    if spec.norm is not None:
        body.append(norm("norm", spec.norm, (width,), load.tokens))
    if spec.d_embed is not None and spec.project == "sum":
        body.append(project)
    return Part("embedding", tuple(body)), load.seq


def head(spec: Head, embed: Embedding, vocab_size: Size, d_model: Size, load: Load) -> Part:
    """Logits [batch, seq, vocab_size] at every position: 2 * tokens * width * vocab_size FLOPs.

    width: that of the token table. A transform (BERT) or a plain matrix (OPT) brings vectors of d_model to it.
    """
    width = d_model if embed.d_embed is None else embed.d_embed
    rows = vocab_size if spec.n_logits is None else spec.n_logits
    body: list[Op] = []
    if spec.transform is not None:
        body.append(linear("transform", load.tokens, d_model, width, "lm_head", bias=spec.transform_bias))
        one = load.tokens * width
        body.append(elementwise("activation", "lm_head", spec.activation, one, one, to_chain=one))
        body.append(norm("transform_norm", spec.transform, (width,), load.tokens))
    elif embed.d_embed is not None:
        body.append(linear("project_out", load.tokens, d_model, width, "lm_head"))
    weights = [Weight(TOKEN_TABLE if spec.tied else "weight", (rows, width), "lm_head")]
    if spec.bias:
        weights.append(Weight("bias", (rows,), "lm_head"))
    body.append(replace(linear("logits", load.tokens, width, rows, "lm_head"), weights=tuple(weights), rows=None))
    if spec.softcap is not None:
        body.append(elementwise("softcap", "lm_head", "softcap", load.tokens * rows, load.tokens * rows))
    return Part("lm_head", tuple(body))


def projection(spec: Projection, d_model: Size, load: Load) -> Part:
    """A dense layer on every token, on one vector a sequence, or on `merge` tokens side by side."""
    d_in = d_model if spec.d_in is None else spec.d_in
    d_out = d_model if spec.d_out is None else spec.d_out
    rows = load.batch if spec.per == "sequence" else load.tokens
    if spec.merge * spec.every > 1:
        rows = exact_div(rows, spec.merge * spec.every)
    body = [] if spec.before is None else [norm("before", spec.before, (d_in,), rows * spec.merge)]
    if spec.per == "sequence" and spec.pool == "mean":
        body.insert(0, elementwise("pool", "other", "pool", load.tokens * d_in, rows * d_in, to_chain=rows * d_in))
    if spec.activation_before is not None:
        one = rows * spec.merge * d_in
        body.append(elementwise("activation_before", "other", spec.activation_before, one, one))
    body.append(linear("dense", rows, spec.merge * d_in, d_out, "other", bias=spec.bias))
    if spec.activation is not None:
        body.append(elementwise("activation", "other", spec.activation, rows * d_out, rows * d_out))
    if spec.norm is not None:
        body.append(norm("norm", spec.norm, (d_out,), rows))
    return Part(spec.name, tuple(body))
