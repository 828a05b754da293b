"""Feed-forward blocks and experts, against the closed forms of their papers."""

from __future__ import annotations

from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

import calc
from calc.spec import Mlp, Moe
from tests.blocks.alone import LAYERS, D, V, flops, model, parameters

SIZES = st.integers(1, 6)


def test_the_plain_block_worked_out_by_hand() -> None:
    """Vaswani et al. 2017, section 3.3: 12 -> 48 -> 12 with both biases, three tokens."""
    block = Mlp(bias=True)
    assert parameters(channel=block) == 2 * 12 * 48 + 48 + 12 == 1212
    assert flops(channel=block, seq=3) == 2 * 3 * 2 * 12 * 48 == 6912


@settings(max_examples=25, deadline=None)
@given(d_ff=SIZES, bias=st.booleans(), fused=st.booleans(), batch=SIZES, seq=SIZES)
def test_gated_blocks(d_ff: int, bias: bool, fused: bool, batch: int, seq: int) -> None:
    """Shazeer 2020 (arXiv:2002.05202), equation 6: three matrices, however they are laid out."""
    block = Mlp(d_ff=d_ff, gated=True, bias=bias, fused=fused, activation="silu")
    assert parameters(channel=block) == 3 * D * d_ff + bias * (2 * d_ff + D)
    assert flops(channel=block, batch=batch, seq=seq) == 2 * batch * seq * 3 * D * d_ff


@settings(max_examples=25, deadline=None)
@given(n=st.integers(2, 6), k=SIZES, d_expert=SIZES, d_shared=st.none() | SIZES, gated=st.booleans(), seq=SIZES)
def test_mixtures_of_experts(n: int, k: int, d_expert: int, d_shared: int | None, gated: bool, seq: int) -> None:
    """Jiang et al. 2024 (arXiv:2401.04088), section 2.1: a router, k of n experts a token; shared ones by everyone
    (DeepSeekMoE, arXiv:2401.06066, equation 3)."""
    k = min(k, n)
    block = Moe(n_experts=n, top_k=k, d_expert=d_expert, d_shared=d_shared, gated=gated)
    expert, shared = ((2 + gated) * D * width for width in (d_expert, d_shared or 0))
    assert parameters(channel=block) == D * n + n * expert + shared
    assert flops(channel=block, seq=seq) == 2 * seq * (D * n + k * expert + shared)
    active = calc.estimate(model(channel=block), "params.active").value
    assert active == V * D + LAYERS * (D * n + k * expert + shared)


def test_room_for_experts_is_counted_full() -> None:
    """Fedus et al. 2021, equation 3: each of four experts has room for ceil(1.25 * 7 * 1 / 4) = 3 of seven tokens."""
    block = Moe(n_experts=4, top_k=1, d_expert=5, gated=False, capacity_factor=1.25)
    assert ceil(1.25 * 7 / 4) == 3
    assert flops(channel=block, seq=7) == 2 * 7 * D * 4 + 4 * 3 * 2 * 2 * D * 5
