"""Small configs of the language models that hear, a variant for each further rule."""

from __future__ import annotations

from typing import Any

from tests.architectures.cases_vision import SEEING

TEXT = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
QWEN2_AUDIO: dict[str, Any] = {
    "text_config": TEXT | {"model_type": "qwen2"},
    "audio_config": {
        "model_type": "qwen2_audio_encoder",
        "d_model": 32,
        "encoder_layers": 2,
        "encoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "num_mel_bins": 12,
        "max_source_positions": 10,
    },
}
VOXTRAL: dict[str, Any] = {
    "text_config": TEXT | {"model_type": "llama", "head_dim": 12},
    "audio_config": {
        "model_type": "voxtral_encoder",
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "num_mel_bins": 12,
        "max_source_positions": 10,
    },
}
TALKER: dict[str, Any] = TEXT | {
    "embedding_size": 48,
    "head_dim": 12,
    "rope_scaling": {"type": "default", "mrope_section": [2, 2, 2]},
}
TALKERS: tuple[dict[str, Any], ...] = (
    TALKER,
    TALKER
    | {"embedding_size": 64, "head_dim": 8, "use_sliding_window": True, "sliding_window": 6}
    | {"max_window_layers": 1, "rope_scaling": {"type": "default", "mrope_section": [2, 1, 1]}},
)
HEARING: dict[str, tuple[dict[str, Any], ...]] = {
    "qwen2_audio": (
        QWEN2_AUDIO,
        QWEN2_AUDIO | {"audio_config": QWEN2_AUDIO["audio_config"] | {"activation_function": "relu"}},
    ),
    "voxtral": (
        VOXTRAL,
        VOXTRAL
        | {"projector_hidden_act": "relu", "text_config": VOXTRAL["text_config"] | {"num_key_value_heads": 4}}
        | {"audio_config": VOXTRAL["audio_config"] | {"intermediate_size": 160, "activation_function": "relu"}},
    ),
    **{name: SEEING[name] for name in ("qwen2_5_omni_thinker", "qwen3_omni_moe_thinker")},
}
"""By model_type: the base and its variants, without model_type."""
