"""GPT-Neo (EleutherAI 2021)."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import LAYER_NORM, activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """GPT-2's block with separate q, k and v that have no bias; every other layer attends locally.

    A local layer's window is only a mask: transformers multiplies all pairs and caches all tokens. So no window is
    described, and the two kinds of layer cost the same.
    """
    cfg.only("sliding_window", None, why="no layer of this family has a window of that kind")
    d_model = cfg.size("hidden_size")
    n_heads = cfg.size("num_heads", "num_attention_heads")
    cfg.multiple("hidden_size", d_model, "num_heads", n_heads)
    n_layers = cfg.layers("num_layers", "num_hidden_layers")
    cfg.size("window_size", absent=None)
    if "local" in _attention_layers(cfg, n_layers):
        cfg.notes.append("local layers are counted in full: their window masks, but saves neither FLOPs nor cache")
    n_positions = cfg.size("max_position_embeddings", absent=2048)
    layer = LayerGroup(
        count=n_layers,
        mixer=Attention(n_heads=n_heads, out_bias=True, position="none"),
        channel=Mlp(
            d_ff=cfg.size("intermediate_size", absent=None, null=None),
            bias=True,
            activation=activation(cfg, "activation_function", absent="gelu_new"),
        ),
        norm=LAYER_NORM,
    )
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=n_positions,
        embedding=Embedding(n_positions=n_positions),
        layers=(layer,),
        final_norm=LAYER_NORM,
        head=Head(tied=cfg.flag("tie_word_embeddings", absent=True)),
    )


def _attention_layers(cfg: Config, n_layers: int) -> list[str]:
    """The kind of each layer, from `attention_types`: [[kinds, times], ...]; absent or null is 12 x global, local."""
    types: Any = cfg.raw.get("attention_types")
    kinds: list[Any] = []
    try:
        for names, times in [[["global", "local"], 12]] if types is None else types:
            if not isinstance(names, list) or type(times) is not int or not 0 <= times <= n_layers:
                raise ValueError
            if len(kinds) + len(names) * times > n_layers:
                raise ValueError
            kinds += names * times
        if len(kinds) == n_layers and all(kind in ("global", "local") for kind in kinds):
            return kinds
    except (TypeError, ValueError):
        pass
    found = "nothing" if "attention_types" not in cfg.raw else types
    raise Refused(f"{cfg.where}attention_types", f"[[[global or local, ...], times], ...] for {n_layers} layers", found)
