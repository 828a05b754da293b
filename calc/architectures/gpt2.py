"""GPT-2 (Radford et al. 2019) and GPT-3 (arXiv:2005.14165), which has its shape, and what its descendants share."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import activation, layer_norm
from calc.architectures.config import Config
from calc.spec import Activation, Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Norm


def spec(cfg: Config) -> ModelSpec:
    """LayerNorm before each block, learned positions, one matrix for q, k and v, biases everywhere, head tied."""
    cfg.only("sliding_window", None, why="no layer of this family has a window of that kind")
    return gpt(cfg, gpt2_attention(cfg, softmax="model"))


def gpt2_attention(cfg: Config, width: str = "n_embd", **structure: Any) -> Attention:
    """Attention with one matrix for q, k and v. width: the name of the model's width. structure: fields of Attention.

    With `reorder_and_upcast_attn` scores that are written out are in float32, of copies of queries and keys: a note
    says that these are not counted.
    """
    cfg.only("add_cross_attention", False, why="an encoder's keys and values are not described by this config")
    if cfg.flag("reorder_and_upcast_attn", absent=False):
        cfg.notes.append(
            "reorder_and_upcast_attn: fp32 copies that eager attention keeps of queries, keys and scores are left out"
        )
    return Attention(
        n_heads=heads(cfg, width),
        qkv_bias=True,
        out_bias=True,
        fused=True,
        position="none",
        scale=None if cfg.flag("scale_attn_weights", absent=True) else 1.0,
        by_depth=cfg.flag("scale_attn_by_inverse_layer_idx", absent=False),
        **structure,
    )


def heads(cfg: Config, width: str = "n_embd") -> int:
    """The number of heads, which must divide the width."""
    n_heads = cfg.size("n_head")
    cfg.multiple(width, cfg.size(width, "hidden_size"), "n_head", n_heads)
    return n_heads


def gpt_mlp(cfg: Config, act: Activation = "gelu_new", width: str = "n_inner") -> Mlp:
    """The feed-forward block, with biases. act: what an absent activation_function means. width: the key of its own."""
    d_ff = cfg.size(width, absent=None, null=None)
    return Mlp(d_ff=d_ff, bias=True, activation=activation(cfg, "activation_function", absent=act))


def gpt_layers(cfg: Config, norm: Norm, mixer: Attention, channel: Mlp, **structure: Any) -> dict[str, Any]:
    """n_layer equal layers. structure: fields of LayerGroup."""
    n_layers = cfg.layers("n_layer")
    blocks: dict[str, Any] = {"mixer": mixer, "channel": channel, "norm": norm, "residual_dropout": True}
    return {"layers": (LayerGroup(count=n_layers, **blocks, **structure),)}


def gpt(cfg: Config, mixer: Attention, act: Activation = "gelu_new") -> ModelSpec:
    """A model of GPT-2's shape around `mixer`. act: as in `gpt_mlp`."""
    norm = layer_norm(cfg)
    return positioned(cfg, gpt_layers(cfg, norm, mixer, gpt_mlp(cfg, act)), norm=norm, n_positions=1024)


def positioned(
    cfg: Config,
    layers: dict[str, Any],
    *,
    norm: Norm | None,
    n_positions: int,
    learned: bool = True,
    keys: tuple[str, str] = ("n_embd", "n_positions"),
    **rest: Any,
) -> ModelSpec:
    """Tokens, `layers` (fields of ModelSpec), final norm, and a head that is tied where nothing says otherwise.

    n_positions: where the key is absent. learned: they have a table. keys: what the family calls the model's width and
    the number of positions. rest: fields of ModelSpec, `head` among them.
    """
    n_positions = cfg.size(keys[1], absent=n_positions)
    if "head" not in rest:
        rest["head"] = Head(tied=cfg.flag("tie_word_embeddings", absent=True))
    return ModelSpec(
        d_model=cfg.size(keys[0]),
        vocab_size=cfg.size("vocab_size"),
        max_seq_len=n_positions,
        embedding=Embedding(n_positions=n_positions if learned else None),
        final_norm=norm,
        **layers,
        **rest,
    )
