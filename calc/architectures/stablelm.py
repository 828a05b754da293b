"""StableLM 3B-4E1T and StableLM 2 (arXiv:2402.17834)."""

from __future__ import annotations

from calc.architectures.common import layer_norm, no_own_d_head
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, gated_mlp, uniform
from calc.spec import ModelSpec, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Llama's block with LayerNorm. `use_parallel_residual` lets both blocks read one norm (StableLM 2 12B)."""
    no_own_d_head(cfg)
    mixer = attention(
        cfg,
        kv_absent=32,
        kv_null=REFUSE,
        d_head_null=None,
        fraction=0.25,
        qkv_bias=cfg.flag("use_qkv_bias", absent=False),
        qk_norm=QkNorm(norm=layer_norm(cfg, "layer_norm_eps", bias=False), span="each")
        if cfg.flag("qk_layernorm", absent=False)
        else None,
    )
    placement = "parallel" if cfg.flag("use_parallel_residual", absent=False) else "pre"
    norm = layer_norm(cfg, "layer_norm_eps")
    return uniform(cfg, mixer, gated_mlp(cfg), norm=norm, placement=placement, max_seq_len=4096)
