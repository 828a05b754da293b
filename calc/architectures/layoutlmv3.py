"""LayoutLMv3 (Huang et al. 2022, arXiv:2204.08387): the text of a page, boxes around its tokens, and its picture."""

from __future__ import annotations

from typing import Any

from calc.architectures.bert import layer, tables
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import BoxBuckets, Boxes, Buckets, ModelSpec, Norm, PageAttention, Picture, Projection

CLASSES = {
    "LayoutLMv3Model": "none",
    "LayoutLMv3ForTokenClassification": "text",
    "LayoutLMv3ForQuestionAnswering": "span",
    "LayoutLMv3ForSequenceClassification": "sequence",
}


def spec(cfg: Config) -> ModelSpec:
    """RoBERTa's layers over text and patches; defaults as in transformers' LayoutLMv3Config."""
    kind = cfg.architecture(CLASSES, usual="LayoutLMv3Model")
    for name in ("text_embed", "visual_embed"):
        cfg.only(name, True, why="a page without its text or its picture is not described")
    d_model = cfg.size("hidden_size")
    boxes = Boxes(
        n_places=cfg.size("max_2d_position_embeddings", absent=1024),
        d_place=cfg.size("coordinate_size", absent=128),
        d_extent=cfg.size("shape_size", absent=128),
    )
    if 4 * boxes.d_place + 2 * boxes.d_extent != d_model:
        expected = f"a width that makes 4 * coordinate_size + 2 * shape_size = hidden_size = {d_model}"
        raise Refused(f"{cfg.where}coordinate_size", expected, boxes.d_place)
    # Positions are numbered from the padding token's row on, which pads take.
    offset = cfg.count("pad_token_id", absent=1) + 1
    embedding = tables(cfg, n_token_types=2, position_offset=offset)
    plain = layer(cfg, activation(cfg, "hidden_act", absent="gelu"))
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=(embedding.n_positions or 0) - offset,
        embedding=embedding.model_copy(update={"boxes": boxes, "picture": _picture(cfg)}),
        layers=(plain.model_copy(update={"mixer": _attention(cfg, d_model)}),),
        final_norm=None,
        heads=_heads(cfg, kind),
        head=None,
    )


def _attention(cfg: Config, d_model: int) -> PageAttention:
    n_heads = cfg.size("num_attention_heads")
    along = cfg.flag("has_relative_attention_bias", absent=True)
    between = cfg.flag("has_spatial_attention_bias", absent=True)
    if between and not along:
        raise Refused(f"{cfg.where}has_spatial_attention_bias", "false where has_relative_attention_bias is", True)
    return PageAttention(
        n_heads=n_heads,
        d_head=d_model // n_heads,
        buckets=Buckets(**_buckets(cfg, "rel_pos_bins", "max_rel_pos", 32)) if along else None,
        box_buckets=BoxBuckets(**_buckets(cfg, "rel_2d_pos_bins", "max_rel_2d_pos", 64)) if between else None,
    )


def _buckets(cfg: Config, bins: str, most: str, usual: int) -> dict[str, Any]:
    """A quarter of the buckets hold one distance each; the others of a side widen up to the largest, beyond those."""
    n, distance = cfg.size(bins, absent=usual), cfg.size(most, absent=4 * usual)
    if n < 4:
        raise Refused(cfg.where + bins, "at least 4, so that either side has two kinds of buckets", n)
    if distance <= n // 4:
        raise Refused(cfg.where + most, f"more than the {n // 4} distances that have a bucket each", distance)
    return {"n_buckets": n, "max_distance": distance}


def _picture(cfg: Config) -> Picture:
    """Square patches of a square picture and a vector ahead of them, with positions, and a norm of its own."""
    pixels, patch = cfg.size("input_size", absent=224), cfg.size("patch_size", absent=16)
    if pixels < patch:
        raise Refused(f"{cfg.where}input_size", f"at least patch_size = {patch}", pixels)
    return Picture(
        height=pixels,
        width=pixels,
        patch_height=patch,
        patch_width=patch,
        channels=cfg.size("num_channels", absent=3),
        n_special=1,
        n_positions=(pixels // patch) ** 2 + 1,
        norm=Norm(kind="layernorm", bias=True, eps=1e-6),
    )


def _heads(cfg: Config, kind: str) -> tuple[Projection, ...]:
    """Tokens are told apart by one layer where they have fewer than ten classes, and otherwise by two."""
    if kind == "none":
        return ()
    n = cfg.labels()
    if kind == "text" and n < 10:
        return (Projection(name="classifier", d_out=n, per="text"),)
    per = {"text": "text", "span": "token", "sequence": "sequence"}[kind]
    dense = Projection.model_validate({"name": "dense", "per": per, "activation": "tanh"})
    behind = "sequence" if kind == "sequence" else "token"
    name = "span" if kind == "span" else "classifier"
    return dense, Projection(name=name, d_out=n, per=behind, reads="dense")
