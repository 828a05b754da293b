"""GPT (Radford et al. 2018): GPT-2's layer with norms behind its blocks, and none at the end."""

from __future__ import annotations

from calc.architectures.common import layer_norm
from calc.architectures.config import Config
from calc.architectures.gpt2 import gpt_layers, heads, positioned
from calc.spec import Activation, Attention, Mlp, ModelSpec

ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "silu": "silu", "swish": "silu", "gelu": "gelu_new"}
"""What transformers' code means by each word of `afn`."""


def spec(cfg: Config) -> ModelSpec:
    """transformers' own code keeps no keys and values, and reads all tokens again for each new one; a step from a cache
    is what is counted here."""
    cfg.only("n_inner", None, why="this family's feed-forward blocks are four times as wide as the model")
    cfg.notes.append("transformers' class keeps no cache: each new token costs it a pass over all")
    mixer = Attention(n_heads=heads(cfg), qkv_bias=True, out_bias=True, fused=True, position="none", softmax="model")
    channel = Mlp(bias=True, activation=cfg.choice("afn", among=ACTIVATIONS, absent="gelu_new"))
    layers = gpt_layers(cfg, layer_norm(cfg), mixer, channel, placement="post")
    return positioned(cfg, layers, norm=None, n_positions=512)
