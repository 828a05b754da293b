"""GPT-J (EleutherAI 2021)."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import layer_norm
from calc.architectures.config import Config
from calc.architectures.gpt2 import gpt_layers, gpt_mlp, heads, positioned
from calc.errors import Refused
from calc.spec import Attention, Head, ModelSpec, Rope


def spec(cfg: Config) -> ModelSpec:
    """Its scores are computed in float32, and the softmax in the model's own format."""
    return gptj(cfg, softmax="model")


def gptj(cfg: Config, **structure: Any) -> ModelSpec:
    """Attention without biases and MLP with, side by side after one LayerNorm; rotary positions; a head with a bias.

    `rotary_dim` values of each head turn, 64 where it is absent. Null would turn heads of all widths by angles that are
    spaced over the whole model's. structure: further fields of Attention.
    """
    cfg.only("sliding_window", None, why="no layer of this family has a window of that kind")
    n_heads = heads(cfg)
    d_head = cfg.size("n_embd") // n_heads
    turning = cfg.size("rotary_dim", absent=64)
    if turning > d_head:
        raise Refused(f"{cfg.where}rotary_dim", f"at most a head's width, {d_head}", turning)
    rope = Rope(fraction=turning / d_head, interleaved=True)
    norm = layer_norm(cfg)
    mixer = Attention(n_heads=n_heads, rope=rope, **structure)
    layers = gpt_layers(cfg, norm, mixer, gpt_mlp(cfg), placement="parallel")
    head = Head(tied=cfg.flag("tie_word_embeddings", absent=False), bias=True)
    return positioned(cfg, layers, norm=norm, n_positions=2048, learned=False, head=head)
