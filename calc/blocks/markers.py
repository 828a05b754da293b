"""Tokens that stand for pictures and sounds: their own tables, and what takes their places of what a tower gives."""

from __future__ import annotations

from math import prod

from calc.errors import Refused
from calc.sizes import Size, holds, is_symbolic
from calc.spec import Frames, Markers, Stack
from calc.spec.load import Load
from calc.trace.op import Weight
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def marked(t: Trace, spec: Markers, x: Tensor, load: Load) -> Tensor:
    """x [batch * seq, d_model] with markers' vectors in the places of some, 2 * batch * seq * width * d_model FLOPs."""
    with t.part(spec.name, of="embedding") as out:
        y = t.norm("norm", spec.norm, t.gather("token", (_table(t, spec, ""),), load.tokens, spec.width))
        own = t.weight("soft_norm.weight", spec.width, of="norm", trainable=spec.n_vectors is not None)
        t.parameters("soft_norm", (own,), 0, spec.width)
        out.append(_embedded(t, spec, y, x.width))
    return t.taken(spec.name, x, out[0])


def seen_vectors(t: Trace, spec: Markers, x: Tensor, d_model: Size) -> Tensor:
    """What eyes give, x [pictures * n_vectors, width], times sqrt(width) -> [pictures * n_vectors, d_model]:
    2 * pictures * n_vectors * width * d_model FLOPs."""
    at = f"/embedding.{spec.name}."
    with t.part(f"{spec.name}_seen", x, of="embedding") as out:
        y = t.norm("soft_norm", spec.norm, t.scaled("scale", x), key=f"{at}soft_norm")
        out.append(_embedded(t, spec, y, d_model, at))
    return out[0]


def heard_vectors(t: Trace, spec: Markers, x: Tensor, d_model: Size, tower: Stack, load: Load) -> Tensor:
    """A tower's x [batch * seq, width] -> [batch * n_vectors, d_model], the vector of a row of the table behind each
    sequence's own: 2 * (batch * seq + 1) * width * d_model FLOPs.

    load: of x. Errors: Refused for sounds that give more vectors, and for a table without that row.
    """
    at = f"/embedding.{spec.name}."
    n = _places(spec, tower, load)
    with t.part(f"{spec.name}_heard", x, of="embedding") as out:
        y = t.norm("soft_norm", spec.norm, x, key=f"{at}soft_norm")
        y = _embedded(t, spec, y, d_model, at)
        fill = t.norm("norm", spec.norm, t.gather("token", (_table(t, spec, at),), 1, spec.width), key=f"{at}norm")
        fill = _embedded(t, spec, fill, d_model, at)
        out.append(t.joined(y, fill, rows=load.batch * n, width=d_model))
    return out[0]


def _table(t: Trace, spec: Markers, at: str) -> Weight:
    return t.weight(f"{at}token.weight", spec.n_rows, spec.width, of="embedding")


def _embedded(t: Trace, spec: Markers, x: Tensor, d_model: Size, at: str = "") -> Tensor:
    """x [rows, width], normed -> [rows, d_model]. at: the path of the matrix, where it has been multiplied before."""
    y = t.linear("project", x, d_model, inside=False, key=f"{at}project.weight", again=bool(at))
    return t.norm("post_norm", spec.norm.model_copy(update={"affine": False}), y)


def _places(spec: Markers, tower: Stack, load: Load) -> Size:
    """How many tokens' places a sound takes."""
    n = spec.n_vectors
    assert n is not None
    if spec.filler is None:
        expected = "none: the last token of the text, whose vector fills up a sound, is no row of its table"
        raise Refused("source_seq", expected, load.source)
    if not is_symbolic(load.seq) and not is_symbolic(n) and holds(load.seq > n):
        assert isinstance(tower.embedding, Frames)
        frames = n * (tower.every or 1) * prod(each.stride for each in tower.embedding.convolutions)
        raise Refused("source_seq", f"at most {frames} frames, which give {n} vectors", load.source)
    return n
