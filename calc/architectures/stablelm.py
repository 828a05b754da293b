"""StableLM 3B-4E1T and StableLM 2 (arXiv:2402.17834)."""

from __future__ import annotations

from calc.architectures.common import kv_heads
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, gated_mlp
from calc.spec.model import LayerGroup, ModelSpec, Norm, QkNorm

LAYER_NORM = Norm(kind="layernorm", bias=True)
HEAD_NORM = QkNorm(norm=Norm(kind="layernorm"), span="heads")


def spec(cfg: Config) -> ModelSpec:
    """Llama's block with LayerNorm. `use_parallel_residual` lets both blocks read one norm (StableLM 2 12B)."""
    d_model = cfg.size("hidden_size")
    n_heads = cfg.size("num_attention_heads")
    cfg.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    layer = LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=attention(
            cfg,
            n_kv_heads=kv_heads(cfg, n_heads, absent=32, null=REFUSE),
            d_head=None,
            qkv_bias=cfg.flag("use_qkv_bias", absent=False),
            out_bias=False,
            qk_norm=HEAD_NORM if cfg.flag("qk_layernorm", absent=False) else None,
        ),
        channel=gated_mlp(cfg),
        norm=LAYER_NORM,
        placement="parallel" if cfg.flag("use_parallel_residual", absent=False) else "pre",
    )
    return decoder(cfg, {"layers": (layer,)}, tied=False, max_seq_len=4096, norm=LAYER_NORM)
