"""Parameters of published models of the newest families, against the counts that their makers give.

Configs are written from memory (tier B: a count published to the last parameter agrees; C: only a rounded one does).
"""

from __future__ import annotations

from typing import Any

import pytest

from calc.architectures import from_config
from calc.architectures.models import load_model
from calc.quantities.parameters import parameters

RWKV = {"model_type": "rwkv7", "vocab_size": 65536, "head_dim": 64, "decay_low_rank_dim": 64, "a_low_rank_dim": 64}
FALCON = {
    "model_type": "falcon_h1", "num_key_value_heads": 2, "mamba_n_groups": 1, "mamba_rms_norm": True,
    "mamba_norm_before_gate": False, "mamba_d_state": 256, "head_dim": 128,
}  # fmt: skip
ZAMBA = {"model_type": "zamba2", "num_attention_heads": 32, "vocab_size": 32000, "mamba_d_state": 64}
KIMI = {
    "model_type": "kimi_linear", "hidden_size": 2304, "intermediate_size": 9216, "moe_intermediate_size": 1024,
    "num_hidden_layers": 27, "num_attention_heads": 32, "num_key_value_heads": 32, "kv_lora_rank": 512,
    "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "num_experts": 256,
    "num_experts_per_token": 8, "num_shared_experts": 1, "vocab_size": 163840,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4,
        "kda_layers": [i for i in range(1, 28) if i % 4 and i != 27],
    },
}  # fmt: skip


def rwkv(d_model: int, n_layers: int, value: int, gate: int, decay: int = 64) -> dict[str, Any]:
    ranks = {"decay_low_rank_dim": decay, "a_low_rank_dim": decay, "v_low_rank_dim": value, "gate_low_rank_dim": gate}
    return RWKV | ranks | {"hidden_size": d_model, "num_hidden_layers": n_layers}


def falcon(n_layers: int, d_model: int, n_heads: int, ssm: tuple[int, int], d_ff: int, vocab: int) -> dict[str, Any]:
    sizes = {"num_hidden_layers": n_layers, "hidden_size": d_model, "num_attention_heads": n_heads}
    sizes |= {"mamba_n_heads": ssm[0], "mamba_d_head": ssm[1], "mamba_d_ssm": ssm[0] * ssm[1]}
    return FALCON | sizes | {"intermediate_size": d_ff, "vocab_size": vocab}


def zamba(d_model: int, n_layers: int, hybrid: tuple[int, ...], n_heads: int, **more: Any) -> dict[str, Any]:
    words = ["hybrid" if i in hybrid else "mamba" for i in range(n_layers)]
    sizes = {"hidden_size": d_model, "num_hidden_layers": n_layers, "n_mamba_heads": n_heads}
    return ZAMBA | sizes | {"layers_block_type": words} | more


EXACT: dict[str, tuple[dict[str, Any], int]] = {
    "RWKV7-World3-0.1B": (rwkv(768, 12, 32, 128), 191_034_624),
    "RWKV7-World3-0.4B": (rwkv(1024, 24, 32, 128), 450_767_872),
    "RWKV7-World3-1.5B": (rwkv(2048, 24, 64, 256, 96), 1_527_404_544),
    "RWKV7-World3-2.9B": (rwkv(2560, 32, 64, 320, 96), 2_947_735_040),
    "Falcon-H1-0.5B": (
        falcon(36, 1024, 8, (24, 64), 2048, 32784) | {"mamba_rms_norm": False, "mamba_d_state": 128, "head_dim": 64},
        521_411_104,
    ),
}
"""Tier B. RWKV-7: arXiv:2503.14456, the table of released models. Falcon-H1: the count on its page of the Hub."""

ROUNDED: dict[str, tuple[dict[str, Any], float, float]] = {
    "Falcon-H1-1.5B": (falcon(24, 2048, 8, (48, 64), 4608, 65537), 1.555, 0.001),
    "Falcon-H1-7B": (falcon(44, 3072, 12, (24, 128), 12288, 130048), 7.59, 0.001),
    "Falcon-H1-34B": (
        falcon(72, 5120, 20, (32, 128), 21504, 261120) | {"num_key_value_heads": 4, "mamba_n_groups": 2}, 33.6, 0.005,
    ),
    "Zamba2-1.2B": (
        zamba(2048, 38, (5, 11, 17, 23, 29, 35), 64, mamba_d_state=128, use_mem_rope=True)
        | {"use_shared_attention_adapter": True}, 1.2, 0.02,
    ),
    "Zamba2-2.7B": (zamba(2560, 54, (6, 12, 18, 24, 30, 36, 42, 47, 51), 80, num_mem_blocks=2), 2.7, 0.02),
    "Zamba2-7B": (
        zamba(3584, 81, (6, *range(11, 78, 6)), 112, num_mem_blocks=2, mamba_ngroups=2, use_mem_rope=True), 7.4, 0.01,
    ),
    "Kimi-Linear-48B-A3B": (KIMI, 48, 0.025),
}  # fmt: skip
"""Tier C: billions as their makers round them, and the share by which such a number may be off."""


@pytest.mark.parametrize("name", EXACT)
def test_as_many_as_published(name: str) -> None:
    config, published = EXACT[name]
    assert sum(parameters(from_config(config)).values()) == published


@pytest.mark.parametrize("name", ROUNDED)
def test_about_as_many_as_published(name: str) -> None:
    config, billions, within = ROUNDED[name]
    assert sum(parameters(from_config(config)).values()) == pytest.approx(1e9 * billions, rel=within)


def test_a_token_of_hy4_visits_49_billion() -> None:
    """As its makers round it, in the README of Tencent-Hunyuan/Hy4-preview."""
    active = sum(parameters(load_model("hy4-preview"), active=True).values())
    assert active == pytest.approx(49e9, rel=0.005)


def test_a_token_of_kimi_linear_visits_three_billion() -> None:
    """Named A3B; the input table, of which it reads one row, left out."""
    active = parameters(from_config(KIMI), active=True)
    assert sum(active.values()) - active["embedding"] == pytest.approx(3e9, rel=0.05)
