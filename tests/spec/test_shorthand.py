"""The short description expands to the full one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import calc
from calc.spec import Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Moe, Norm, Shorthand

SIZES: dict[str, Any] = {"d_model": 12, "n_layers": 2, "n_heads": 3, "vocab_size": 50}


def test_left_as_it_is_it_is_gpt_2s_block() -> None:
    norm = Norm(kind="layernorm", bias=True)
    assert Shorthand(**SIZES, max_seq_len=16).expand() == ModelSpec(
        d_model=12,
        vocab_size=50,
        max_seq_len=16,
        embedding=Embedding(n_positions=16),
        layers=(
            LayerGroup(
                count=2,
                mixer=Attention(n_heads=3, qkv_bias=True, out_bias=True, position="none"),
                channel=Mlp(bias=True, activation="gelu"),
                norm=norm,
                placement="pre",
            ),
        ),
        final_norm=norm,
        head=Head(tied=True),
    )


@settings(max_examples=40, deadline=None)
@given(layers=st.integers(1, 5), heads=st.integers(1, 4), half=st.integers(1, 6), positions=st.integers(1, 40))
def test_parameters_of_gpt_2_in_closed_form(layers: int, heads: int, half: int, positions: int) -> None:
    """12 d^2 + 13 d a layer, two tables and the last norm (Radford et al. 2019, figures of its table 2)."""
    d = 2 * half * heads
    sizes: dict[str, Any] = {
        "d_model": d,
        "n_layers": layers,
        "n_heads": heads,
        "vocab_size": 50,
        "max_seq_len": positions,
    }
    found = calc.estimate(Shorthand(**sizes).expand(), "params").value
    assert found == layers * (12 * d**2 + 13 * d) + (50 + positions) * d + 2 * d


def test_experts_stand_in_every_layer() -> None:
    spec = Shorthand(**SIZES, position="rope", n_experts=4, top_k=2, d_expert=7, d_shared=5, gated=True, bias=False)
    channel = spec.expand().layers[0].channel
    assert channel == Moe(n_experts=4, top_k=2, d_expert=7, d_shared=5, gated=True, activation="gelu")


@pytest.mark.parametrize(
    ("position", "rows", "sinusoidal", "mixers"),
    [
        ("learned", 16, False, "none"),
        ("sinusoidal", None, True, "none"),
        ("rope", None, False, "rope"),
        ("alibi", None, False, "alibi"),
        ("none", None, False, "none"),
    ],
)
def test_positions_go_where_they_belong(position: str, rows: int | None, sinusoidal: bool, mixers: str) -> None:
    spec = Shorthand(**SIZES, max_seq_len=16, position=position).expand()  # pyright: ignore[reportArgumentType]
    assert isinstance(spec.embedding, Embedding)
    assert (spec.embedding.n_positions, spec.embedding.sinusoidal) == (rows, sinusoidal)
    assert isinstance(spec.layers[0].mixer, Attention)
    assert spec.layers[0].mixer.position == mixers


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "max_seq_len: expected the rows of the learned position table"),
        ({"position": "rope", "n_experts": 4}, "top_k: expected n_experts, top_k and d_expert together"),
        ({"position": "rope", "top_k": 4}, "top_k: expected n_experts, top_k and d_expert together"),
        ({"position": "rope", "d_shared": 4}, "d_shared: expected n_experts beside it"),
        (
            {"position": "rope", "n_experts": 4, "top_k": 1, "d_expert": 2, "d_ff": 8},
            "d_ff: expected d_expert instead, in a mixture of experts",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Shorthand(**SIZES | changes)  # pyright: ignore[reportArgumentType]
