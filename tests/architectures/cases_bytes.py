"""Small configs of models that read bytes in patches."""

from __future__ import annotations

from typing import Any

BLT: dict[str, Any] = {
    "vocab_size": 97,
    "patch_size": 3,
    "local_attention_window_len": 6,
    "encoder_hash_byte_group_size": [2, 3],
    "encoder_hash_byte_group_vocab": 11,
    "encoder_hash_byte_group_nb_functions": 2,
    "encoder_config": {"vocab_size": 97, "hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2},
    "decoder_config": {"hidden_size": 16, "hidden_size_global": 24, "num_attention_heads": 2, "num_hidden_layers": 3}
    | {"intermediate_size": 28, "rms_norm_eps": 0.03},
    "global_config": {"hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
    | {"intermediate_size": 36, "rope_parameters": {"rope_type": "default", "rope_theta": 37.0}},
    "patcher_config": {"vocab_size": 97, "hidden_size": 12, "num_attention_heads": 2, "num_hidden_layers": 2}
    | {"intermediate_size": 20, "sliding_window": 5},
}


def within(section: str, **change: Any) -> dict[str, Any]:
    """The config with keys of one of its sections changed."""
    return BLT | {f"{section}_config": BLT[f"{section}_config"] | change}


BYTES: dict[str, tuple[dict[str, Any], ...]] = {
    "blt": (
        BLT,
        # Patches as wide as their vectors side by side, fewer keys than queries, one layer that reads patches.
        within("decoder", cross_attn_all_layers=False, hidden_size_global=32, num_key_value_heads=1)
        | {"global_config": BLT["global_config"] | {"hidden_size": 32, "num_key_value_heads": None}}
        | {"encoder_config": BLT["encoder_config"] | {"num_key_value_heads": 2, "intermediate_size": 20}}
        | {"patch_in_forward": False, "tie_word_embeddings": True, "local_attention_window_len": None},
        within("encoder", cross_attn_k=3, num_hidden_layers=1, cross_attn_all_layers=True)
        | {"decoder_config": BLT["decoder_config"] | {"cross_attn_k": 3, "num_hidden_layers": 1}, "cross_attn_k": 3}
        | {"patch_size": 4, "encoder_hash_byte_group_size": None, "max_patch_length": 4},
    ),
}
