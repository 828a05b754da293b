"""The family that a config of an unknown type is nearest to: by its name, else by what its keys say of its layers."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

SIGNS: tuple[tuple[str, frozenset[str]], ...] = tuple(
    (family, frozenset(keys.split()))
    for family, keys in (
        ("deepseek_v3", "kv_lora_rank"),
        ("qwen3_next", "linear_num_value_heads linear_conv_kernel_dim"),
        ("nemotron_h", "mamba_num_heads mamba_d_state ssm_state_size mamba_d_conv"),
        ("qwen3_moe", "num_experts num_local_experts n_routed_experts moe_intermediate_size"),
        ("wav2vec2", "conv_dim num_feat_extract_layers"),
        ("whisper", "num_mel_bins"),
        ("t5", "relative_attention_num_buckets"),
        ("bart", "decoder_layers decoder_attention_heads is_encoder_decoder"),
        ("vit", "image_size patch_size"),
        ("llama", "rms_norm_eps num_key_value_heads rope_theta rope_parameters"),
        ("bert", "type_vocab_size hidden_dropout_prob"),
        ("gpt2", "n_embd n_layer"),
    )
)
"""Family -> keys of which each says that a model's layers are like those of this family; the first that fits counts."""


def nearest(raw: dict[str, Any], families: Iterable[str]) -> tuple[str, ...]:
    """Up to three families that a config is nearest to, or none. Of a model with pictures, the language model's type
    counts, where that is a family."""
    known = tuple(families)
    model_type = raw.get("model_type")
    if isinstance(model_type, str) and (close := get_close_matches(model_type[:60], known, n=3, cutoff=0.5)):
        return tuple(close)
    for section in (raw.get("text_config"), raw):
        if not isinstance(section, dict):
            continue
        if section is not raw and section.get("model_type") in known:
            return (section["model_type"],)
        given = {key for key, value in section.items() if value not in (None, False, 0)}
        if found := next((family for family, keys in SIGNS if keys & given), None):
            return (found,)
    return ()
