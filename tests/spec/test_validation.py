"""What a description refuses, and how it says so."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from calc.spec import Attention, BlockIndexer, Embedding, LayerGroup, Mla, Mlp, ModelSpec, Moe, NGrams, Norm, Shorthand
from calc.spec.fields import MAX_SIZE, refuse

SIZES: dict[str, Any] = {"d_model": 12, "n_layers": 2, "n_heads": 3, "vocab_size": 50, "max_seq_len": 16}
LATENT: dict[str, Any] = {"n_heads": 3, "kv_rank": 4, "d_nope": 4, "d_rope": 2, "d_value": 4}
INDEXER = BlockIndexer(n_heads=2, d_head=4, rate=2, budget=4)
HASHED: dict[str, Any] = {"rows": 9, "d_ngram": 4, "n": 2, "heads": (5, 3), "multipliers": (1, 3), "end": 0}


def refused(kind: Any, **fields: Any) -> str:
    """What `kind` says to these fields, in the one line that the command line prints."""
    with pytest.raises(ValidationError) as failed:
        kind(**fields)
    return str(refuse(failed.value, "here"))


@pytest.mark.parametrize("size", [0, -1, 1.0, 12.5, "12", True, None, MAX_SIZE + 1, float("nan")])
def test_a_size_is_a_whole_number_above_0(size: object) -> None:
    said = refused(Shorthand, **SIZES | {"d_model": size})
    assert said.startswith("here: d_model: expected ")
    assert "\n" not in said


def test_a_field_that_is_missing_or_unknown_is_named() -> None:
    assert refused(Shorthand, d_model=12) == "here: n_layers: expected a value, found nothing"
    known = "no such field (did you mean n_heads, d_head, n_kv_heads?)"
    assert refused(Shorthand, **SIZES, n_head=3) == f"here: n_head: expected {known}, found 3"
    assert refused(Shorthand, **SIZES, nothing_like_it=3) == "here: nothing_like_it: expected no such field, found 3"


def test_a_misspelt_field_is_said_before_the_one_that_it_leaves_out() -> None:
    sizes = {name: size for name, size in SIZES.items() if name != "n_heads"}
    assert refused(Shorthand, **sizes, n_head=3).startswith("here: n_head: ")


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        (Norm, {"bias": True}, "bias: expected false for a norm that has none"),
        (Attention, {"n_heads": 4, "n_kv_heads": 3}, "n_kv_heads: expected a divisor of n_heads = 4, found 3"),
        (Attention, {"n_heads": 4, "chunked": True}, "window: expected the length of a chunk"),
        (Attention, {"n_heads": 4, "dynamic_mask": 8, "sinks": True}, "dynamic_mask: expected null beside sinks"),
        (
            Attention,
            {"n_heads": 4, "d_head": 8, "convolved": {}, "fused": True},
            "convolved: expected none beside fused",
        ),
        (Attention, {"n_heads": 4, "convolved": {}}, "d_head: expected given, and an even number with n_kv_heads"),
        (
            Moe,
            {"n_experts": 2, "top_k": 2, "d_expert": 4, "skips": True},
            "skips: expected false, unless tokens choose one",
        ),
        (
            Moe,
            {"n_experts": 2, "top_k": 1, "d_expert": 4, "deep_router": {"d_router": 4}, "router_bias": True},
            "deep_router: expected none beside router_bias",
        ),
        (LayerGroup, {"count": 1, "block_scale": True, "shifted": True}, "shifted: expected false without block_scale"),
        (Attention, {"n_heads": 4, "sinks": True, "indexer": INDEXER}, "indexer: expected none beside sinks"),
        (Attention, {"n_heads": 4, "window": 8, "indexer": INDEXER}, "indexer: expected none, unless tokens see all"),
        (
            BlockIndexer,
            {"n_heads": 4, "d_head": 8, "rate": 4, "budget": 6},
            "budget: expected whole blocks of rate = 4",
        ),
        (NGrams, HASHED | {"d_ngram": 5}, "heads: expected as many of each length up to n = 2, dividing d_ngram"),
        (NGrams, HASHED | {"rows": 7}, "heads: expected parts of a table of 7 rows, found 8"),
        (NGrams, HASHED | {"multipliers": (1,)}, "multipliers: expected one for each of n = 2 tokens, found 1"),
        (Mlp, {"fused": True}, "fused: expected false without a gate"),
        (Moe, {"n_experts": 2, "top_k": 3, "d_expert": 4}, "top_k: expected at most n_experts = 2, found 3"),
        (Moe, {"n_experts": 2, "top_k": 1, "d_expert": 4, "shared_gate": True}, "shared_gate: expected false"),
        (
            Moe,
            {"n_experts": 2, "n_zero": 1, "top_k": 4, "d_expert": 4},
            "top_k: expected at most n_experts = 3, found 4",
        ),
        (Moe, {"n_experts": 2, "n_zero": 1, "top_k": 1, "d_expert": 4}, "n_zero: expected so many that of 1 visits"),
        (
            Moe,
            {"n_experts": 2, "n_zero": 2, "top_k": 2, "d_expert": 4, "sum_bias": True},
            "n_zero: expected null beside",
        ),
        (Moe, {"n_experts": 2, "top_k": 1, "d_expert": 4, "late": True}, "late: expected false, but beside an ungated"),
        (Mla, LATENT | {"d_rope": None}, "d_rope: expected an even width"),
        (
            Mla,
            LATENT | {"top_k": 2, "indexer": {"n_heads": 2, "d_head": 4}},
            "q_rank: expected a size beside an indexer",
        ),
        (LayerGroup, {"count": 1, "macaron": True}, "macaron: expected false without a channel mixer"),
    ],
)
def test_what_does_not_fit_together_is_refused(kind: Any, fields: dict[str, Any], said: str) -> None:
    assert refused(kind, **fields).startswith(f"here: {said}")


def alone(name: str) -> LayerGroup:
    return LayerGroup(name=name, count=1, mixer=Attention(n_heads=3), channel=Mlp())


def latents(name: str, **more: Any) -> LayerGroup:
    return LayerGroup(name=name, count=1, mixer=Mla(**LATENT | more), channel=Mlp())


def experts(name: str, count: int = 1, **more: Any) -> LayerGroup:
    channel = Moe(n_experts=4, top_k=1, d_expert=8, d_shared=8, late=True)
    return LayerGroup(name=name, count=count, mixer=Attention(n_heads=3), channel=channel, **more)


def layer(name: str, **more: Any) -> LayerGroup:
    return LayerGroup(name=name, count=2, mixer=Attention(n_heads=3, **more), channel=Mlp())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"layers": (layer("a"), layer("a"))}, "layers: expected groups with different names"),
        ({"layers": (layer("a"),), "schedule": ("a",)}, "schedule: expected 2 layers named a, found 1"),
        ({"layers": (layer("a"),), "schedule": ("a", "a", "b")}, "schedule: expected names among a, found b"),
        ({"layers": (layer("a"),), "d_model": 13}, "n_heads: expected "),
        ({"layers": (layer("a", d_head=5),)}, "d_head: expected an even width, since rotary positions turn pairs"),
        (
            {"layers": (layer("a").model_copy(update={"placement": "post"}),), "embedding": Embedding(wide=True)},
            "embedding.wide: expected false, unless norms stand before the blocks alone",
        ),
        ({"layers": ()}, "layers: expected "),
        ({"layers": (latents("a", kv="earlier"),)}, "kv: expected a layer before it with latents of its own"),
        (
            {"layers": (latents("a"), latents("b", kv="earlier", position="none", d_rope=None))},
            "kv: expected a layer before it with latents of its own, of the same position",
        ),
        ({"layers": (experts("a"),)}, "late: expected false in the last layer"),
        ({"layers": (experts("a", count=2), layer("b"))}, "late: expected false in the last layer, and in the next"),
        ({"layers": (experts("a"), layer("b"))}, "layers: expected a kind of their own for those behind experts"),
        ({"layers": (experts("a", placement="post"), alone("b"))}, "late: expected false, unless norms stand before"),
        ({"layers": (experts("a"), alone("b")), "n_streams": 2}, "late: expected false beside n_streams"),
    ],
)
def test_layers_that_no_model_can_have_are_refused(fields: dict[str, Any], said: str) -> None:
    known = {"d_model": 12, "vocab_size": 50, "embedding": Embedding()}
    assert refused(ModelSpec, **known | fields).startswith(f"here: {said}")


def test_a_description_cannot_be_changed() -> None:
    spec = Shorthand(**SIZES)
    with pytest.raises(ValidationError, match="frozen"):
        spec.d_model = 13  # pyright: ignore[reportAttributeAccessIssue]
