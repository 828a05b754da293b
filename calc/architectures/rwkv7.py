"""RWKV-7 "Goose" (arXiv:2503.14456): World and G1 models, with the config.json that flash-linear-attention writes."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import stack
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Embedding, Head, LayerGroup, Mlp, ModelSpec, Norm, Rwkv7


def spec(cfg: Config) -> ModelSpec:
    """Keys as in flash-linear-attention's RWKV7Config. A norm stands behind the embedding, and no layer but the first
    has values of its own alone."""
    d_model, n_layers = cfg.size("hidden_size"), cfg.layers("num_hidden_layers")
    d_head = cfg.size("head_dim", absent=64)
    n_heads = cfg.multiple("hidden_size", d_model, "head_dim", d_head)
    cfg.only("num_heads", None, n_heads, why="hidden_size / head_dim")
    cfg.only("value_dim", None, d_model, [d_model] * n_layers, why="values as wide as the model")
    cfg.only("attn", None, why="no layer of this family attends")
    cfg.only("norm_first", True, why="the norm behind the embedding")
    cfg.only("hidden_act", "sqrelu", why="what the channel mixer runs through")
    eps = cfg.number("norm_eps", absent=1e-5)
    norm = Norm(kind="layernorm", bias=cfg.flag("norm_bias", absent=True), eps=eps)
    sizes: dict[str, Any] = {
        "n_heads": n_heads,
        "d_head": d_head,
        "decay_rank": cfg.size("decay_low_rank_dim"),
        "rate_rank": cfg.size("a_low_rank_dim"),
        "gate_rank": cfg.size("gate_low_rank_dim"),
        "norm": Norm(kind="layernorm", bias=True, eps=d_head * eps),
    }
    value_rank = cfg.size("v_low_rank_dim")
    channel = Mlp(d_ff=_width(cfg, d_model), activation="relu2", shift=True)

    def layer(kind: str) -> LayerGroup:
        mixer = Rwkv7(value_rank=None if kind == "first" else value_rank, **sizes)
        return LayerGroup(count=1, mixer=mixer, channel=channel, norm=norm)

    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size"),
        embedding=Embedding(norm=norm),
        **stack(["first"] + ["later"] * (n_layers - 1), layer),
        final_norm=norm,
        head=Head(tied=cfg.flag("tie_word_embeddings", absent=False)),
    )


def _width(cfg: Config, d_model: int) -> int:
    """intermediate_size, or hidden_ratio times the model's width, rounded up to a multiple of 32."""
    own = cfg.size("intermediate_size", absent=None, null=None)
    if own is not None:
        return own
    ratio = cfg.number("hidden_ratio", absent=4.0, null=4.0)
    if ratio <= 0:
        raise Refused(f"{cfg.where}hidden_ratio", "a number above 0", ratio)
    return 32 * -(-int(ratio * d_model) // 32)
