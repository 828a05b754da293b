"""Attention, plain and latent, against the closed forms of its papers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc.spec import Attention, Mla, QkNorm
from tests.blocks.alone import D, cached, decoded, flops, parameters

SIZES = st.integers(1, 4)


def test_a_layer_of_gpt_2_worked_out_by_hand() -> None:
    """Four matrices 12 x 12 and their biases; three heads of 4, five tokens twice: 4 products of 12 x 12 for ten
    tokens, and scores and values of 2 * 3 heads, 25 pairs and 4 numbers each."""
    mixer = Attention(n_heads=3, qkv_bias=True, out_bias=True, position="none")
    assert parameters(mixer) == 4 * 144 + 4 * 12 == 624
    assert flops(mixer, batch=2, seq=5) == 2 * 10 * 576 + 2 * 2 * (2 * 3 * 25 * 4) == 13920
    assert cached(mixer, 7) == 2 * 7 * 12


@settings(max_examples=30, deadline=None)
@given(groups=SIZES, kv_heads=SIZES, half=SIZES, d_value=SIZES, batch=SIZES, seq=st.integers(1, 9))
def test_grouped_heads(groups: int, kv_heads: int, half: int, d_value: int, batch: int, seq: int) -> None:
    """Ainslie et al. 2023: queries of every head, keys and values of every group; scores and values full."""
    heads, d_head = groups * kv_heads, 2 * half
    mixer = Attention(n_heads=heads, n_kv_heads=kv_heads, d_head=d_head, d_value=d_value)
    matrices = D * (heads * d_head + kv_heads * (d_head + d_value)) + heads * d_value * D
    assert parameters(mixer) == matrices
    scores = 2 * heads * (d_head + d_value)
    assert flops(mixer, batch=batch, seq=seq) == 2 * batch * seq * matrices + batch * seq**2 * scores
    assert decoded(mixer, seq) == 2 * matrices + (seq + 1) * scores
    assert cached(mixer, seq) == seq * kv_heads * (d_head + d_value)


@pytest.mark.parametrize(("span", "norms"), [("head", 4 + 4), ("heads", 12 + 4), ("all", 12 + 4)])
def test_norms_of_queries_and_keys(span: str, norms: int) -> None:
    """Three query heads and one key head of 4: a vector of a head's width for all of them, or of all heads together."""
    mixer = Attention(n_heads=3, n_kv_heads=1, qk_norm=QkNorm(span=span))  # pyright: ignore[reportArgumentType]
    assert parameters(mixer) == 12 * 12 + 2 * 12 * 4 + 12 * 12 + norms


def test_what_one_word_adds() -> None:
    plain = Attention(n_heads=3)
    assert parameters(plain.model_copy(update={"sinks": True})) - parameters(plain) == 3
    assert parameters(plain.model_copy(update={"gate": True})) - parameters(plain) == D * D
    windowed = plain.model_copy(update={"window": 2})
    assert cached(windowed, 9) == 2 * 2 * D
    assert flops(windowed, seq=9) == flops(plain, seq=9), "the dense product runs whatever the window"


@settings(max_examples=30, deadline=None)
@given(heads=SIZES, q_rank=st.none() | SIZES, kv_rank=SIZES, d_nope=SIZES, half=SIZES, d_value=SIZES, seq=SIZES)
def test_latent_attention(
    heads: int, q_rank: int | None, kv_rank: int, d_nope: int, half: int, d_value: int, seq: int
) -> None:
    """DeepSeek-V2 (arXiv:2405.04434), equations 37 to 47, and a norm on each latent; the cache of section 2.1.4."""
    d_rope = 2 * half
    mixer = Mla(n_heads=heads, q_rank=q_rank, kv_rank=kv_rank, d_nope=d_nope, d_rope=d_rope, d_value=d_value)
    queries = heads * (d_nope + d_rope)
    asked = D * queries if q_rank is None else D * q_rank + q_rank * queries
    matrices = asked + D * (kv_rank + d_rope) + kv_rank * heads * (d_nope + d_value) + heads * d_value * D
    assert parameters(mixer) == matrices + (q_rank or 0) + kv_rank
    scores = 2 * heads * (d_nope + d_rope + d_value)
    assert flops(mixer, seq=seq) == 2 * seq * matrices + seq**2 * scores
    assert cached(mixer, seq) == seq * (kv_rank + d_rope)
