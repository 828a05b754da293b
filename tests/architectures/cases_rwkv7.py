"""Configs of RWKV-7: a small one, and the published World models."""

from __future__ import annotations

from typing import Any

SMALL: dict[str, Any] = {
    "model_type": "rwkv7", "vocab_size": 97, "hidden_size": 24, "num_hidden_layers": 3, "head_dim": 6,
    "intermediate_size": 40, "decay_low_rank_dim": 5, "a_low_rank_dim": 4, "v_low_rank_dim": 3, "gate_low_rank_dim": 7,
}  # fmt: skip
