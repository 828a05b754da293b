"""Tokens in: the embedding tables and what stands before the first layer."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.front_output import FrontOutput
from calc.sizes import Size, ceil_div
from calc.spec import Embedding
from calc.spec.load import Load
from calc.trace.shard import VOCABULARY
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

TOKEN_TABLE = "/embedding.token.weight"


def token_vectors(t: Trace, spec: Embedding, vocab_size: Size, d_model: Size, load: Load) -> FrontOutput:
    """Tokens [batch, seq] -> [batch * seq, d_model], with learned positions if any; lookups are 0 FLOPs."""
    width = d_model if spec.d_embed is None else spec.d_embed
    if spec.multiple is not None:
        load = replace(load, seq=spec.multiple * ceil_div(load.seq, spec.multiple))
    key = TOKEN_TABLE if spec.shared else "token.weight"
    table = t.weight(key, vocab_size, width, of="embedding", shard=VOCABULARY)
    x = t.gather("token", (table,), load.tokens, width)
    if spec.scale != 1.0:
        x = t.scaled("scale", x)
    if spec.d_embed is not None and spec.project == "tokens":
        x = t.linear("project_in", x, d_model, bias=spec.project_bias, inside=False)
    if spec.norm is not None and spec.norm_of == "tokens":
        x = t.norm("norm", spec.norm, x)
    if spec.n_positions is not None:
        x = positioned(t, spec.n_positions, x, load.seq, trained=spec.trained_positions)
    if spec.n_angles is not None and spec.d_angles is not None:
        angles = t.weight("angles.weight", spec.n_angles, spec.d_angles, of="positional", trainable=False)
        t.parameters("angles", (angles,), load.seq, spec.d_angles)
    if spec.sinusoidal:
        x = t.add("sinusoids", x, of="positional")
    if spec.n_token_types is not None:
        types = t.weight("token_type.weight", spec.n_token_types, x.width, of="embedding")
        found = t.gather("token_type", (types,), load.tokens, x.width)
        x = t.add("token_type_add", x, found, of="positional")
    if spec.norm is not None and spec.norm_of == "sum":
        x = t.norm("norm", spec.norm, x)
    if spec.d_embed is not None and spec.project == "sum":
        x = t.linear("project_in", x, d_model, bias=spec.project_bias, inside=False)
    return FrontOutput(x, load.seq)


def positioned(t: Trace, n_positions: Size, x: Tensor, seq: Size, *, trained: bool = True) -> Tensor:
    """x plus the rows of a table of positions, one for each of seq places; a table that is not trained is kept as wide
    as all weights."""
    table = t.weight("position.weight", n_positions, x.width, of="positional", trainable=trained)
    return t.add("position_add", x, t.gather("position", (table,), seq, x.width, of="positional"), of="positional")
