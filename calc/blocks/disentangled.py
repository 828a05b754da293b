"""Contents against distances, beside contents against contents (He et al. 2021, arXiv:2006.03654, section 3.1)."""

from __future__ import annotations

from dataclasses import replace

from calc.sizes import Size, minimum
from calc.spec import Disentangled, Norm
from calc.spec.load import Load
from calc.trace.shard import COLUMN, key_value
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

NAME = "vectors of distances"


def distance_vectors(t: Trace, spec: Disentangled, norm: Norm, d_model: Size, load: Load) -> Tensor:
    """The table that all layers of a stack read, [2 * n_distances, d_model], or the rows that a short sequence needs.

    norm: of the layers, which the table passes where it is normed.
    """
    n = minimum(spec.n_distances, load.seq) if spec.nearest else spec.n_distances
    table = t.weight("distances.weight", 2 * spec.n_distances, d_model, of="positional")
    x = t.parameters("distances", (table,), 2 * n, d_model, of="positional")
    if not spec.normed:
        return x
    x = t.norm("distances_norm", norm, x)
    return t.silent(
        "distances", (x,), x.view(x.rows, x.width), lambda tape, read: replace(read, common=NAME, split="none")
    )


def projected_vectors(
    t: Trace, spec: Disentangled, vectors: Tensor, width: Size, heads: Size, *, bias: bool
) -> tuple[Tensor | None, Tensor | None]:
    """What queries, and what keys, of so many heads are multiplied with, each [rows of vectors, width], or None.

    bias: of the projections to queries and keys, which stand here where the vectors have none of their own.
    """
    vectors = _of_layer(t, spec, vectors)

    def projected(own: str, lent: str, shard: Size | None, *, own_bias: bool) -> Tensor:
        cut = COLUMN if shard is None else key_value(shard)
        if spec.own:
            return t.linear(own, vectors, width, bias=own_bias, of="positional", shard=COLUMN, inside=False)
        key, bias_key = f"{lent}.weight", f"{lent}.bias" if bias else None
        return t.linear(
            f"{lent}_of_distances", vectors, width, key=key, bias_key=bias_key, shard=cut, again=True, inside=False
        )

    keys = projected("pos_k_proj", "k_proj", heads, own_bias=spec.key_bias) if spec.queries else None
    queries = projected("pos_q_proj", "q_proj", None, own_bias=True) if spec.keys else None
    return keys, queries


def _of_layer(t: Trace, spec: Disentangled, vectors: Tensor) -> Tensor:
    """The table as one layer reads it: with dropout of its own; else, under autocast, cast once for all layers where it
    is the parameter itself."""

    def keeps(tape: Tape, read: Storage) -> Storage:
        s = tape.settings
        if s.dropout:
            return tape.drop(read)
        if not s.autocast or not read.parameter or spec.nearest:
            return read
        known = (each for each in tape.saved if each.common == NAME)
        return next(known, Storage(read.elements, s.dtype, read.grad, "none", NAME))

    return t.silent("distances", (vectors,), vectors.view(vectors.rows, vectors.width), keeps)
