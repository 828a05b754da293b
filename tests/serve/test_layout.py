"""How ranks of a server divide blocks, held to arithmetic on configs; one place says so, which `memory` reads too."""

from __future__ import annotations

import pytest

import calc
from calc.errors import Refused
from calc.serve.formats import served_format
from calc.serve.layout import layout_of
from calc.serve.rank import at, rank_of
from calc.serve.work import work_of

STATE = 4
"""Bytes of a number of a recurrence's state; convolutions keep theirs as keys and values."""


def _mixers(name: str, tp: int) -> float:
    """Elements of the matrices of all mixers that one rank holds."""
    return sum(
        each.elements(tp) * each.calls for each in work_of(calc.load_model(name)).matrices if each.kind == "mixer"
    )


def _attention(d: int, heads: int, kv: int, head: int, tp: int, gated: int = 0) -> float:
    """Queries (and gates as wide), keys and values, and the last matrix; ranks beyond heads of keys share them."""
    return d * head * ((2 + gated) * heads / tp + 2 * kv / min(tp, kv))


def _delta(d: int, keys: int, values: int, tp: int) -> float:
    """A gated delta net with heads of 128: queries and keys, values and gates, a rate and a decay a head, the last."""
    return d * (2 * keys * 128 + 2 * values * 128 + 2 * values + values * 128) / tp


def _mamba2(d: int, heads: int, head: int, groups: int, state: int, tp: int) -> float:
    """Gate and x, a step a head, B and C of every group, of which each rank has one at least; the last matrix."""
    return d * ((3 * heads * head + heads) / tp + 2 * groups * state / min(tp, groups))


def _kda(d: int, tp: int) -> float:
    """32 heads of 128: queries, keys, values and the last; a rate a head; decay and gate through 128 values, made
    whole on every rank."""
    wide = 32 * 128
    return (4 * d * wide + d * 32 + 2 * 128 * wide) / tp + 2 * d * 128


def _latent(d: int, tp: int) -> float:
    """Kimi-Linear's: 32 heads of 128 + 64 queries, 512 + 64 values that every rank makes, expanded to keys and values,
    which decoding folds into queries and results."""
    return (d * 32 * 192 + 32 * 256 * 512 + 32 * 128 * d) / tp + d * 576


def _compressed(tp: int) -> float:
    """DeepSeek-V4-Pro, of its layers without entries: 128 heads of 512, results in 16 groups to 1,024 values each;
    latents and the only key are made by every rank."""
    return (1536 * 65536 + 65536 * 1024 + 16 * 1024 * 7168) / tp + 7168 * (1536 + 512)


MIXERS = {
    "qwen3-next-80b-a3b": lambda tp: 36 * _delta(2048, 16, 32, tp) + 12 * _attention(2048, 16, 2, 256, tp, 1),
    "qwen3.5-27b": lambda tp: 48 * _delta(5120, 16, 48, tp) + 16 * _attention(5120, 24, 4, 256, tp, 1),
    "qwen3.5-397b-a17b": lambda tp: 45 * _delta(4096, 16, 64, tp) + 15 * _attention(4096, 32, 2, 256, tp, 1),
    "falcon-h1-7b": lambda tp: 44 * (_mamba2(3072, 24, 128, 1, 256, tp) + _attention(3072, 12, 2, 128, tp)),
    "nemotron-3-super": lambda tp: 40 * _mamba2(4096, 128, 64, 8, 128, tp) + 8 * _attention(4096, 32, 2, 128, tp),
    "kimi-linear-48b": lambda tp: 20 * _kda(2304, tp) + 7 * _latent(2304, tp),
}


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("name", MIXERS)
def test_ranks_divide_heads_of_recurrences(name: str, tp: int) -> None:
    layout_of(calc.load_model(name), tp=tp)
    assert _mixers(name, tp) == pytest.approx(MIXERS[name](tp), rel=1e-12)


def test_ranks_divide_heads_of_compressed_attention_and_not_its_entries() -> None:
    """Beside what is divided stands what makes entries and chooses among them, on every rank."""
    whole = _mixers("deepseek-v4-pro", 1) - 61 * _compressed(1)
    assert whole > 0
    for tp in (2, 16):
        assert _mixers("deepseek-v4-pro", tp) == pytest.approx(61 * _compressed(tp) + whole, rel=1e-12)


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_ranks_divide_states(tp: int) -> None:
    """Qwen3-Next: 36 states of 32 heads, 128 x 128 numbers each, and 4 inputs of a convolution of 8,192 channels."""
    spec = calc.load_model("qwen3-next-80b-a3b")
    rank = rank_of(work_of(spec), layout_of(spec, tp=tp), served_format("bf16"), "bf16")
    assert at(rank.cached_bytes, 0) == pytest.approx(36 * (32 * 128 * 128 * STATE + 4 * 8192 * 2) / tp)


@pytest.mark.parametrize(
    ("name", "tp", "said"),
    [
        ("qwen3-next-80b-a3b", 32, "a divisor of n_key_heads = 16"),
        ("nemotron-3-super", 16, "a divisor of n_groups = 8"),
        ("falcon-h1-7b", 8, "a divisor of n_heads = 12"),
        ("kimi-linear-48b", 64, "a divisor of n_heads = 32"),
        ("deepseek-v4-pro", 32, "a divisor of n_out_groups = 16"),
        ("rwkv7-1.5b", 64, "a divisor of n_heads = 32"),
        ("zamba2-2.7b", 3, "a divisor of n_heads = 80"),
        ("deepseek-v3", 256, "a divisor of n_heads = 128"),
    ],
)
def test_what_heads_do_not_allow_is_refused(name: str, tp: int, said: str) -> None:
    with pytest.raises(Refused, match=f"--tp: expected {said}, found {tp}"):
        layout_of(calc.load_model(name), tp=tp)


def test_pieces_of_experts_divide_them() -> None:
    """Experts of 768, cut into as many pieces as ranks are left that hold the same ones."""
    spec = calc.load_model("qwen3-30b-a3b")
    with pytest.raises(Refused, match="--tp: expected a divisor of d_expert = 768, found 5"):
        layout_of(spec, tp=1, attention_dp=5)
    assert layout_of(spec, tp=1, attention_dp=8, ep=8).moe_tp == 1
