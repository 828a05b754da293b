"""Qwen3-VL's mixtures of experts (arXiv:2511.21631): Qwen3's experts with Qwen3-VL's vision tower."""

from __future__ import annotations

from calc.architectures.common import stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder
from calc.architectures.qwen2_moe import channel_kinds, channel_of
from calc.architectures.qwen_vision import qwen_tower
from calc.architectures.vision import multimodal, text_section
from calc.spec import LayerGroup, ModelSpec, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Qwen3VLMoeTextConfig: 16 key-value heads, heads as wide as follows, no windows."""
    section = text_section(cfg, "qwen3_vl_moe_text")
    section.only("use_sliding_window", False, None, why="no layer of this family has a window")
    bias = section.flag("attention_bias", absent=False)
    mixer = attention(
        section, kv_absent=16, kv_null=REFUSE, d_head_null=None, qkv_bias=bias, out_bias=bias, qk_norm=QkNorm()
    )
    n_layers = section.layers("num_hidden_layers")
    kinds = channel_kinds(section, n_layers)
    made = channel_of(section, kinds, shared=False)

    def layer(kind: str) -> LayerGroup:
        return LayerGroup(count=n_layers, mixer=mixer, channel=made[kind])

    text = decoder(section, stack(kinds, layer), max_seq_len=128000)
    return multimodal(cfg, text, qwen_tower(cfg, text.d_model, "qwen3_vl_moe", deepstack=True), tied=False)
