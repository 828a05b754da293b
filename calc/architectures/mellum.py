"""Mellum 2 (JetBrains 2026): Qwen3's experts in every layer, of which some slide with angles of their own."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import crossed_stack, layer_kinds, mlp_kinds, window_of
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, rms_norm
from calc.architectures.qwen2_moe import channel_of
from calc.architectures.rope import rope
from calc.spec import LayerGroup, ModelSpec, QkNorm

THETA = {"full": 500_000.0, "sliding": 10_000.0}


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' MellumConfig: 4 key-value heads, heads 128 wide, no layer that slides, experts in
    all of them, whose weights are renormalised."""
    cfg.only("num_nextn_predict_layers", None, 0, why="modules for further tokens of this family are not described")
    n_layers = cfg.layers("num_hidden_layers")
    bias = cfg.flag("attention_bias", absent=False)
    norm = rms_norm(cfg)
    window = cfg.size("sliding_window", absent=1024, null=None)
    attends = layer_kinds(cfg, ["full"] * n_layers)
    kinds = mlp_kinds(cfg, ["moe"] * n_layers)
    made = channel_of(cfg, kinds, shared=False, renormalize=True)
    shape: dict[str, Any] = {"kv_absent": 4, "kv_null": REFUSE, "d_head_absent": 128}

    def layer(attends: str, kind: str) -> LayerGroup:
        turning = rope(cfg, theta=THETA[attends], layers=f"{attends}_attention")
        mixer = attention(cfg, **shape, qkv_bias=bias, out_bias=bias, qk_norm=QkNorm(norm=norm), rope=turning)
        own = mixer.model_copy(update={"window": window_of(attends, window)})
        return LayerGroup(count=1, mixer=own, channel=made[kind], norm=norm)

    return decoder(cfg, crossed_stack(attends, kinds, layer), max_seq_len=131072, norm=norm)
