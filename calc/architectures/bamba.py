"""Bamba (IBM 2024): Mamba-2 layers with a few of attention, a gated MLP in each."""

from __future__ import annotations

from calc.architectures.common import stack
from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, gated_mlp, rms_norm
from calc.architectures.mamba2 import hybrid_mamba2
from calc.errors import Refused
from calc.spec import LayerGroup, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' BambaConfig: the `attn_layer_indices` attend, and no layer where it is absent."""
    n_layers = cfg.layers("num_hidden_layers")
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_attention_heads", cfg.size("num_attention_heads"))
    cfg.only("head_dim", None, why="heads of this family have no width of their own")
    bias = cfg.flag("attention_bias", absent=False)
    norm = rms_norm(cfg, 1e-5)
    mixers = {
        "attention": attention(cfg, kv_absent=8, fraction=0.5, qkv_bias=bias, out_bias=bias),
        "mamba": hybrid_mamba2(cfg, norm),
    }
    channel = gated_mlp(cfg, bias=cfg.flag("mlp_bias", absent=False))
    attends = frozenset(cfg.numbers("attn_layer_indices", absent=(), null=()))
    if outside := [i for i in attends if i >= n_layers]:
        raise Refused(f"{cfg.where}attn_layer_indices", f"numbers of the {n_layers} layers", outside[0])

    def layer(kind: str) -> LayerGroup:
        return LayerGroup(count=n_layers, mixer=mixers[kind], channel=channel, norm=norm)

    kinds = ["attention" if i in attends else "mamba" for i in range(n_layers)]
    return decoder(cfg, stack(kinds, layer), max_seq_len=262144, norm=norm)
