"""Qwen3-VL (arXiv:2511.21631): Qwen3's dense model with a vision tower whose features also enter its first layers."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.llama import attention, gated_mlp, uniform
from calc.architectures.qwen_vision import qwen_tower
from calc.architectures.vision import multimodal, text_section
from calc.spec import ModelSpec, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Qwen3VLTextConfig: heads 128 wide, 32 key-value heads where the keys are absent; no
    windows; the outer model is not tied unless it says so."""
    section = text_section(cfg, "qwen3_vl_text")
    bias = section.flag("attention_bias", absent=False)
    mixer = attention(section, kv_absent=32, d_head_absent=128, qkv_bias=bias, out_bias=bias, qk_norm=QkNorm())
    text = uniform(section, mixer, gated_mlp(section), max_seq_len=128000)
    return multimodal(cfg, text, qwen_tower(cfg, text.d_model, "qwen3_vl", deepstack=True), tied=False)
