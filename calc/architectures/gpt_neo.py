"""GPT-Neo (EleutherAI 2021)."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import layer_norm, sliding_stack
from calc.architectures.config import Config
from calc.architectures.gpt2 import gpt_mlp, positioned
from calc.errors import Refused
from calc.spec import Attention, ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """GPT-2's block with separate q, k and v that have no bias and scores that are not divided by sqrt(d_head); every
    other layer attends locally.

    A local layer's window is only a mask: transformers multiplies all pairs and caches all tokens, so the two kinds of
    layer cost the same.
    """
    cfg.only("sliding_window", None, why="no layer of this family has a window of that kind")
    d_model, norm = cfg.size("hidden_size"), layer_norm(cfg)
    n_heads = cfg.size("num_heads")
    cfg.multiple("hidden_size", d_model, "num_heads", n_heads)
    n_layers = cfg.layers("num_layers")
    window = cfg.size("window_size", absent=256)
    kinds = _attention_layers(cfg, n_layers)
    if "local" in kinds:
        cfg.notes.append("local layers are counted in full: their window masks, but saves neither FLOPs nor cache")
    mixer = Attention(n_heads=n_heads, out_bias=True, position="none", scale=1.0, softmax="model")
    channel = gpt_mlp(cfg, width="intermediate_size")

    def local(kind: str) -> dict[str, int | None]:
        return {"masked_window": window if kind == "local" else None}

    layers = sliding_stack(kinds, mixer, None, local, channel=channel, norm=norm, residual_dropout=True)
    keys = ("hidden_size", "max_position_embeddings")
    return positioned(cfg, layers, norm=norm, n_positions=2048, keys=keys)


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
