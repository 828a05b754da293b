"""Blocks with a state, against the closed forms of their papers."""

from __future__ import annotations

from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from calc.spec import GatedConvolution, LinearAttention, Mamba, Mamba2
from calc.spec.delta_net import DeltaNet
from tests.blocks.alone import D, cached, decoded, flops, parameters

SIZES = st.integers(1, 4)
LENGTHS = st.integers(1, 40)


def convolved(channels: int, taps: int, seq: int) -> int:
    """FLOPs of a filter for each channel as eager PyTorch runs it, padded on both sides: over seq + taps - 1."""
    return 2 * channels * taps * (seq + taps - 1)


def convolved_once(channels: int, taps: int) -> int:
    """The same for one token behind as many cached ones as there are taps: two positions, of which one is used."""
    return 2 * channels * taps * 2


@settings(max_examples=25, deadline=None)
@given(d_inner=st.none() | SIZES, d_state=SIZES, d_conv=SIZES, rank=st.none() | SIZES, seq=LENGTHS)
def test_mamba(d_inner: int | None, d_state: int, d_conv: int, rank: int | None, seq: int) -> None:
    """Gu & Dao 2023, algorithm 2 and section 3.4: expansion by 2 and a rank of d / 16 where nothing is said.

    A token reads its state with one product and updates it without one.
    """
    block = Mamba(d_inner=d_inner, d_state=d_state, d_conv=d_conv, dt_rank=rank)
    inner, r = d_inner or 2 * D, rank or ceil(D / 16)
    matrices = 2 * D * inner + inner * (r + 2 * d_state) + r * inner + inner * D
    vectors = 3 * inner  # the convolution's bias, the step size's, and D
    assert parameters(block) == matrices + inner * d_conv + vectors + inner * d_state
    assert flops(block, seq=seq) == seq * (2 * matrices + 2 * inner * d_state) + convolved(inner, d_conv, seq)
    assert cached(block, 9) == inner * d_state + inner * d_conv


@settings(max_examples=25, deadline=None)
@given(heads=SIZES, d_head=SIZES, d_state=SIZES, d_conv=SIZES)
def test_mamba_2(heads: int, d_head: int, d_state: int, d_conv: int) -> None:
    """Dao & Gu 2024, listing 1 and section 7: one projection to gate, x, B, C and step sizes; a state read once."""
    block = Mamba2(n_heads=heads, d_head=d_head, d_state=d_state, d_conv=d_conv)
    inner = heads * d_head
    mixed = inner + 2 * d_state
    matrices = D * (inner + mixed + heads) + inner * D
    assert parameters(block) == matrices + mixed * (d_conv + 1) + 3 * heads + inner
    assert decoded(block, 5) == 2 * matrices + convolved_once(mixed, d_conv) + 2 * inner * d_state
    assert cached(block, 9) == inner * d_state + mixed * d_conv


@settings(max_examples=25, deadline=None)
@given(key_heads=SIZES, times=SIZES, d_key=SIZES, d_value=SIZES, d_conv=SIZES)
def test_gated_delta_net(key_heads: int, times: int, d_key: int, d_value: int, d_conv: int) -> None:
    """Yang et al. 2024 (arXiv:2412.06464), section 3: queries, keys, values and gate, two numbers a head."""
    heads = times * key_heads
    block = DeltaNet(n_key_heads=key_heads, n_value_heads=heads, d_key=d_key, d_value=d_value, d_conv=d_conv)
    mixed = 2 * key_heads * d_key + heads * d_value
    matrices = D * (mixed + heads * d_value + 2 * heads) + heads * d_value * D
    assert parameters(block) == matrices + mixed * d_conv + 2 * heads + d_value
    assert decoded(block, 5) == 2 * matrices + convolved_once(mixed, d_conv)
    assert cached(block, 9) == heads * d_key * d_value + mixed * d_conv


@settings(max_examples=25, deadline=None)
@given(heads=SIZES, d_head=SIZES)
def test_linear_attention(heads: int, d_head: int) -> None:
    """Katharopoulos et al. 2020, equations 16 to 20: a state of d_head squared and a sum of keys for each head."""
    block = LinearAttention(n_heads=heads, d_head=d_head)
    matrices = 4 * D * heads * d_head
    assert parameters(block) == matrices
    assert decoded(block, 5) == 2 * matrices + 2 * 2 * heads * d_head**2
    assert cached(block, 9) == heads * (d_head**2 + d_head)


@settings(max_examples=25, deadline=None)
@given(d_conv=SIZES, seq=LENGTHS, biased=st.booleans())
def test_gated_convolution(d_conv: int, seq: int, biased: bool) -> None:
    """LFM2: three gates' worth of the width in, a filter a channel, and the width out."""
    block = GatedConvolution(d_conv=d_conv, bias=biased)
    assert parameters(block) == 4 * D * D + D * d_conv + biased * (3 * D + D + D)
    assert flops(block, seq=seq) == 2 * seq * 4 * D * D + convolved(D, d_conv, seq)
