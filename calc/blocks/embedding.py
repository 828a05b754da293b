"""Tokens in: the embedding tables and what stands before the first layer."""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.front_output import FrontOutput
from calc.blocks.markers import marked
from calc.blocks.patches import patches
from calc.errors import Refused
from calc.sizes import Size, ceil_div, differ, exact_div, is_exactly
from calc.spec import Boxes, Embedding, Hashes, Node, Norm, Picture
from calc.spec.load import Load
from calc.spec.sparse_blocks import beyond
from calc.trace.shard import VOCABULARY
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

TOKEN_TABLE = "/embedding.token.weight"
OWN_VECTOR = "/embedding.own.weight"


def token_vectors(t: Trace, spec: Embedding, vocab_size: Size, d_model: Size, load: Load) -> FrontOutput:
    """Tokens [batch, seq] -> [batch * seq, d_model], with learned positions if any; lookups are 0 FLOPs."""
    width = d_model if spec.d_embed is None else spec.d_embed
    load = filled_up(spec, load)
    key = TOKEN_TABLE if spec.shared else "token.weight"
    table = t.weight(key, vocab_size, width, of="embedding", shard=VOCABULARY)
    x = t.gather("token", (table,), load.tokens, width)
    if spec.hashes is not None:
        x = t.add("hash_add", x, _hashed(t, spec.hashes, x.width, load), of="embedding")
    if spec.scale != 1.0:
        x = t.scaled("scale", x)
    if spec.weighed:
        x = t.weighed("weighed", x, of="embedding", shifted=True)
    for each in spec.markers:
        x = marked(t, each, x, load)
    if spec.own_token is not None:
        own = t.weight(OWN_VECTOR if spec.shared else OWN_VECTOR.rpartition("embedding.")[2], x.width, of="embedding")
        x = t.taken("own", x, t.parameters("own", (own,), 1, x.width, of="embedding"))
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
    if spec.boxes is not None:
        x = t.add("boxes_add", x, _boxes(t, spec.boxes, load), of="positional")
    if spec.norm is not None and spec.norm_of == "sum":
        x = t.norm("norm", spec.norm, x)
    if spec.picture is not None and spec.norm is not None:
        return _with_picture(t, spec.picture, spec.norm, x, load)
    if spec.d_embed is not None and spec.project == "sum":
        x = t.linear("project_in", x, d_model, bias=spec.project_bias, inside=False)
    return FrontOutput(x, load.seq)


def filled_up(spec: Node, load: Load) -> Load:
    """The load with the tokens that a front fills each text up with, where it does."""
    multiple = getattr(spec, "multiple", None)
    return replace(load, seq=multiple * ceil_div(load.seq, multiple)) if fills(spec, load.seq) else load


def fills(spec: Node, tokens: Size) -> bool:
    """Whether a front fills texts of so many tokens up to a multiple. Errors: Refused for a column of texts some of
    which it does."""
    least = getattr(spec, "beyond", None)
    return getattr(spec, "multiple", None) is not None and (least is None or beyond(tokens, least))


def _hashed(t: Trace, spec: Hashes, width: Size, load: Load) -> Tensor:
    """The vectors that groups of bytes are hashed to, all tables being one."""
    table = t.weight("hash.weight", spec.tables * spec.n_rows, width, of="embedding")
    return t.gather("hash", (table,), spec.tables * load.tokens, width, of="embedding")


def _boxes(t: Trace, spec: Boxes, load: Load) -> Tensor:
    """Six vectors of each token side by side, from four tables; the box's four numbers are kept together."""
    tables = tuple(
        t.weight(f"{name}.weight", spec.n_places, width, of="positional")
        for names, width in ((("across", "down"), spec.d_place), (("tall", "wide"), spec.d_extent))
        for name in names
    )
    width = 4 * spec.d_place + 2 * spec.d_extent
    return t.gather("boxes", tables, load.tokens, width, of="positional", indices=6 * load.tokens)


def _with_picture(t: Trace, spec: Picture, norm: Norm, x: Tensor, load: Load) -> FrontOutput:
    """The text x [batch * seq, d_model], and behind each the patches of its page's picture, normed together; the text
    as it is where no pictures are read. Errors: Refused for more or fewer pictures than texts."""
    alone = is_exactly(load.images, 0)
    if not alone and differ(load.images, load.batch):
        raise Refused("images", f"0, or one for each of {load.batch} pages", load.images)
    if load.image is not None:
        raise Refused("image", "none: a page's picture has the size that the model is made for", "one")
    if alone:
        with t.without_gradient():
            t.norm("page_norm", norm, _patches(t, spec, x.width, load).vectors)
        return FrontOutput(x, load.seq)
    seen, n, _ = _patches(t, spec, x.width, load)
    x = t.concat("picture_concat", t.dropout("text_dropout", x), seen)
    return FrontOutput(t.norm("page_norm", norm, x), load.seq + exact_div(n * load.images, load.batch))


def _patches(t: Trace, spec: Picture, d_model: Size, load: Load) -> FrontOutput:
    """The vectors of all pictures, as one part."""
    with t.part("picture") as out:
        first = patches(t, spec, None, d_model, replace(load, batch=load.images))
        out.append(first.vectors)
    return first


def positioned(t: Trace, n_positions: Size, x: Tensor, seq: Size, *, trained: bool = True) -> Tensor:
    """x plus the rows of a table of positions, one for each of seq places; a table that is not trained is kept as wide
    as all weights."""
    table = t.weight("position.weight", n_positions, x.width, of="positional", trainable=trained)
    return t.add("position_add", x, t.gather("position", (table,), seq, x.width, of="positional"), of="positional")
