"""Hunyuan 0.5B to 7B (Tencent 2025): Llama's block, with queries and keys normed after they turn."""

from __future__ import annotations

from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, gated_mlp, rms_norm, uniform
from calc.architectures.rope import rope, rope_section
from calc.spec import Attention, ModelSpec, QkNorm, Rope, RopeScaling


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' HunYuanDenseV1Config, whose modeling code takes the width of a head from head_dim
    alone."""
    return uniform(cfg, hunyuan_attention(cfg), gated_mlp(cfg), eps=1e-5, max_seq_len=2048)


def hunyuan_attention(cfg: Config) -> Attention:
    """Attention that norms what has turned. Keys of the original code that transformers does not obey are refused."""
    cfg.only("use_qk_norm", True, why="transformers norms queries and keys whatever this says")
    cfg.only("use_cla", False, why="layers that use the keys and values of others are not in transformers' code")
    bias = cfg.flag("attention_bias", absent=False)
    return attention(
        cfg,
        d_head_absent=REFUSE,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=QkNorm(norm=rms_norm(cfg, 1e-5), turned=True),
        rope=_rope(cfg),
    )


def _rope(cfg: Config) -> Rope:
    """What the configs call dynamic is the same for all lengths where they give `alpha`."""
    turning = rope(cfg)
    if turning.scaling is None or turning.scaling.kind != "dynamic":
        return turning
    alpha = rope_section(cfg).number("alpha", absent=0.0, null=0.0)
    return turning.model_copy(update={"scaling": RopeScaling(kind="ntk", factor=alpha)}) if alpha else turning
