"""Descriptions of attention in blocks and bands, and of alternating updates: what they refuse, and who refuses them."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import calc
from calc.architectures import from_config
from calc.ask.parts import part_rows
from calc.errors import Refused
from calc.quantities.flops import training
from calc.spec import (
    AltUp,
    Attention,
    BandAttention,
    BlockAttention,
    BlockIndexer,
    BoxBuckets,
    Boxes,
    Buckets,
    Embedding,
    FunnelAttention,
    GatedBias,
    Halved,
    LayerGroup,
    MaskDecoder,
    Merge,
    Mlp,
    ModelSpec,
    Neck,
    NGrams,
    Norm,
    PageAttention,
    Patches,
    Picture,
    PooledAttention,
    Projection,
    Pyramid,
    Restored,
    Tower,
    WindowAttention,
    WindowedPositions,
)
from calc.spec.load import Load
from tests.architectures.cases_recent import GEMMA3N

BLOCKS = BlockAttention(n_heads=4, d_head=8, block=4)
BAND = BandAttention(n_heads=4, d_head=8, reach=3)
GATED = GatedBias(n_heads=4, d_head=8)
FUNNEL = FunnelAttention(n_heads=4, d_head=8)
AHEAD = FUNNEL.model_copy(update={"unhalved": True})
PAGE = PageAttention(n_heads=4, d_head=8)
BOXES = Boxes(n_places=9, d_place=5, d_extent=6)
PIXELS: dict[str, int] = {"height": 8, "width": 8, "patch_height": 4, "patch_width": 4}
PICTURE = Picture(**PIXELS)
WHOLE = Embedding(boxes=BOXES, picture=PICTURE, norm=Norm())
WINDOWS = WindowAttention(n_heads=4, side=2)
INDEXER = BlockIndexer(n_heads=2, d_head=8, rate=2, budget=4)
HASHED = NGrams(rows=9, d_ngram=4, n=2, heads=(5, 3), multipliers=(1, 3), end=0)
MERGE = Merge(d_merged=48, norm=Norm())
PLAIN = LayerGroup(count=2, mixer=Attention(n_heads=4), channel=Mlp(gated=True, activation="silu"))


def model(*layers: LayerGroup, **fields: Any) -> ModelSpec:
    return ModelSpec(d_model=32, vocab_size=50, layers=layers or (PLAIN,), **fields)


def staged(mixer: Any = WINDOWS, **fields: Any) -> ModelSpec:
    """Windows in two stages, of one and of two kinds of layers."""
    layers = of(WINDOWS, name="one"), of(mixer, name="two", merge=MERGE)
    return model(*layers, embedding=Patches(**PIXELS), head=None, **fields)


def pooled(**fields: Any) -> ModelSpec:
    """Plain windows in three stages, each of half as many patches along a side."""
    windows = WindowAttention(n_heads=4, side=2, plain=True)
    merges = [None, *(PooledAttention(d_merged=width, n_heads=4, side=2, norm=Norm()) for width in (64, 96))]
    groups = [of(windows, name=f"stage{i}", merge=merge) for i, merge in enumerate(merges)]
    return model(*groups, embedding=Patches(**PIXELS), head=None, final_norm=None, **fields)


def halved(**fields: Any) -> ModelSpec:
    """Two layers, and behind a halving one whose keys are those ahead of it."""
    return model(of(FUNNEL, name="one"), of(**{"mixer": AHEAD, "name": "two", "count": 1, "halved": Halved()} | fields))


def of(mixer: Any, **fields: Any) -> LayerGroup:
    return PLAIN.model_copy(update={"mixer": mixer} | fields)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: BlockAttention(n_heads=4, d_head=8, block=4, buckets=Buckets(shared=False)), "buckets.shared"),
        (lambda: model(of(BLOCKS), of(BLOCKS.model_copy(update={"block": 5}), name="wider")), "mixer"),
        (lambda: GatedBias(n_heads=4, d_head=8, buckets=Buckets(shared=False)), "buckets.shared"),
        (lambda: model(of(GATED), PLAIN.model_copy(update={"name": "plain"})), "mixer"),
        (lambda: model(of(GATED), of(GATED.model_copy(update={"n_heads": 2}), name="other")), "buckets"),
        (lambda: halved(halved=None), "unhalved"),
        (lambda: halved(count=2), "unhalved"),
        (lambda: halved(mixer=Attention(n_heads=4)), "mixer"),
        (lambda: halved(mixer=AHEAD.model_copy(update={"first_apart": False})), "first_apart"),
        (lambda: halved(mixer=AHEAD.model_copy(update={"factorized": True})), "first_apart"),
        (lambda: halved(again=True), "again"),
        (lambda: halved(upsampled=True), "upsampled"),
        (lambda: model(PLAIN.model_copy(update={"upsampled": True})), "upsampled"),
        (lambda: model(of(FUNNEL, halved=Halved())), "mixer"),
        (lambda: model(of(FUNNEL), embedding=Patches(**PIXELS)), "halved"),
        (lambda: model(of(FUNNEL), n_streams=2), "halved"),
        (
            lambda: model(
                of(FUNNEL), of(FUNNEL, name="b", halved=Halved()), of(FUNNEL, name="c", halved=Halved(cut=False))
            ),
            "halved",
        ),
        (
            lambda: Tower(**halved().model_dump(include={"d_model", "embedding", "layers"}) | {"name": "encoder"}),
            "halved",
        ),
        (lambda: PageAttention(n_heads=4, d_head=8, buckets=None, box_buckets=BoxBuckets()), "box_buckets"),
        (lambda: model(of(PAGE)), "embedding"),
        (lambda: model(of(WINDOWS)), "mixer"),
        (lambda: model(PLAIN.model_copy(update={"merge": MERGE}), embedding=Patches(**PIXELS)), "layers"),
        (lambda: staged(schedule=("one", "one", "two", "two", "one", "two")), "schedule"),
        (lambda: staged(mixer=WINDOWS.model_copy(update={"n_heads": 5})), "n_heads"),
        (
            lambda: Tower(**staged().model_dump(include={"d_model", "embedding", "layers"}) | {"name": "vision"}),
            "merge",
        ),
        (lambda: Patches(**PIXELS, filled=True, stride_height=2), "filled"),
        (lambda: Patches(**PIXELS, n_positions=4, padding=1), "padding"),
        (lambda: Patches(**PIXELS, n_special=1, windowed=WindowedPositions(rows=2, columns=2, side=2)), "windowed"),
        (lambda: WindowAttention(n_heads=4, side=None), "side"),
        (lambda: WindowAttention(n_heads=4, side=2, plain=True, shifted=True), "plain"),
        (lambda: PooledAttention(d_merged=48, n_heads=4, side=3, norm=Norm()), "side"),
        (lambda: PooledAttention(d_merged=48, n_heads=5, side=2, norm=Norm()), "n_heads"),
        (lambda: staged(mask_decoder=MaskDecoder()), "mask_decoder"),
        (lambda: pooled(pyramid=None, mask_decoder=MaskDecoder()), "mask_decoder"),
        (lambda: pooled(neck=Neck(d_out=16), mask_decoder=MaskDecoder()), "mask_decoder"),
        (lambda: pooled(neck=Neck(d_out=24), mask_decoder=MaskDecoder(maps=False)), "neck.d_out"),
        (lambda: model(neck=Neck(d_out=16), final_norm=None), "neck"),
        (lambda: WindowAttention(n_heads=4, side=3, axes=4), "axes"),
        (lambda: WindowAttention(n_heads=4, side=4, axes=4, plain=True), "axes"),
        (lambda: pooled(pyramid=Pyramid(d_out=40), mask_decoder=MaskDecoder()), "pyramid.d_out"),
        (lambda: pooled(pyramid=Pyramid(d_out=36), mask_decoder=MaskDecoder(n_heads=1)), "pyramid.d_out"),
        (lambda: model(of(PAGE), embedding=Embedding(boxes=BOXES)), "embedding"),
        (lambda: model(of(PAGE), PLAIN.model_copy(update={"name": "plain"}), embedding=WHOLE), "mixer"),
        (lambda: model(embedding=Embedding(boxes=Boxes(n_places=9, d_place=5, d_extent=4))), "boxes"),
        (lambda: Embedding(boxes=BOXES, d_embed=8), "boxes"),
        (lambda: Embedding(picture=PICTURE), "picture"),
        (lambda: Embedding(picture=PICTURE, norm=Norm(), multiple=4), "multiple"),
        (lambda: model(heads=(Projection(name="classifier", per="text"),)), "per"),
        (lambda: model(embedding=Restored(**PIXELS, n_positions=5)), "encoder"),
        (lambda: Patches(**PIXELS, masked=0.5), "masked"),
        (lambda: Patches(**PIXELS, masked=0.5, n_positions=4, position_tables=2), "position_tables"),
        (lambda: model(of(BAND)), "embedding.multiple"),
        (lambda: model(of(BAND), embedding=Embedding(multiple=9)), "embedding.multiple"),
        (lambda: model(altup=AltUp(n=2), n_streams=4), "n_streams"),
        (lambda: model(altup=AltUp(n=1)), "altup.n"),
        (lambda: model(PLAIN.model_copy(update={"ngrams": HASHED})), "ngrams"),
        (lambda: model(of(Attention(n_heads=4, d_head=16, indexer=INDEXER))), "indexer.d_head"),
        (lambda: model(altup=AltUp(n=3, active=3)), "altup.n"),
        (lambda: model(of(Attention(n_heads=4), placement="parallel"), altup=AltUp()), "altup"),
        (lambda: LayerGroup(count=1, mixer=Attention(n_heads=4), placement="post", laurel=3), "laurel"),
        (lambda: Mlp(sparsity=0.5), "sparsity"),
    ],
)
def test_what_does_not_fit_together_is_refused(make: Any, field: str) -> None:
    with pytest.raises(ValueError, match=rf"\b{field}: expected"):
        make()


def test_texts_too_short_to_be_halved_are_refused_one_by_one_and_in_columns() -> None:
    spec = halved()
    assert training(spec, Load(batch=2, seq=3)).total > 0
    assert (training(spec, Load(batch=2, seq=numpy.array([3.0, 20.0]))).total > 0).all()
    for seq in (2, numpy.array([2.0, 21.0])):
        with pytest.raises(Refused, match=r"^seq: expected texts of 3 vectors or more ahead of two"):
            training(spec, Load(batch=2, seq=seq))


def test_halved_texts_answer_what_is_asked_of_any_model() -> None:
    spec = from_config({"model_type": "funnel"})
    assert calc.estimate(spec, "kv_cache", seq=64).value == 0
    parts = {row.path: sum(row.flops.values()) for row in part_rows(spec, calc.Run(phase="forward", seq=64))}
    assert parts["layers.{block2_first}.attention"] > parts["layers.{block3_first}.attention"] > 0
    with pytest.raises(Refused, match="others do not halve"):
        calc.estimate(spec, "flops.forward", calc.Run(batch=1, seq=4))


def test_whole_chunks_fit() -> None:
    assert model(of(BAND), embedding=Embedding(multiple=12)).n_layers == 2


@pytest.mark.parametrize("fields", [{"altup": AltUp(n=2)}, {"layers": (PLAIN.model_copy(update={"laurel": 4}),)}])
def test_what_counts_plain_decoders_alone_refuses_streams(fields: dict[str, Any]) -> None:
    spec = model().model_copy(update=fields)
    with pytest.raises(Refused, match="selective-op"):
        training(spec, Load(batch=1, seq=8), "selective-op")
    with pytest.raises(Refused, match="others in"):
        calc.estimate(spec, "flops.training", calc.Run(batch=1, seq=8), convention="chinchilla")


def test_how_much_stands_between_two_layers() -> None:
    """Of Gemma 3n, as many vectors a token as there are streams, which a pipeline's stages send."""
    spec = from_config({"model_type": "gemma3n_text", **GEMMA3N})
    assert spec.stream_width == 4 * spec.d_model
    assert model().stream_width == 32


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"altup_correct_scale": False}, "altup_correct_scale"),
        ({"altup_num_inputs": 1}, "altup_num_inputs"),
        ({"altup_active_idx": 4}, "altup_num_inputs"),
        ({"num_kv_shared_layers": 6}, "num_kv_shared_layers"),
        ({"activation_sparsity_pattern": [0.5] * 5}, "activation_sparsity_pattern"),
        ({"activation_sparsity_pattern": [1.0] * 6}, "activation_sparsity_pattern"),
        ({"intermediate_size": [40] * 5}, "intermediate_size"),
    ],
)
def test_what_is_refused_of_gemma3n(change: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as refusal:
        from_config({"model_type": "gemma3n_text", **GEMMA3N, **change})
    assert refusal.value.field == field


def test_longer_texts_are_refused_one_by_one_and_in_columns() -> None:
    spec = model(of(Attention(n_heads=4, causal=False, position="none", longest=20)))
    assert training(spec, Load(batch=2, seq=20)).total > 0
    assert (training(spec, Load(batch=2, seq=numpy.array([8.0, 20.0]))).total > 0).all()
    for seq in (21, numpy.array([8.0, 21.0])):
        with pytest.raises(Refused, match=r"^seq: expected at most 20 tokens"):
            training(spec, Load(batch=2, seq=seq))


@pytest.mark.parametrize(("load", "field"), [(Load(batch=2, images=3), "images"), (Load(2, image=(8, 8)), "image")])
def test_pages_have_a_picture_each_of_one_size(load: Load, field: str) -> None:
    with pytest.raises(Refused, match=f"^{field}:"):
        training(model(of(PAGE), embedding=WHOLE), load)
