"""Llama 1 to 3.2 (arXiv:2302.13971, 2307.09288, 2407.21783), the many checkpoints that call themselves llama, and the
pieces of its block that other families build on. Defaults as in transformers' LlamaConfig."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calc.architectures.common import activation, d_head, kv_heads, one_window
from calc.architectures.config import REFUSE, Config
from calc.architectures.rope import rope
from calc.spec import Attention, Embedding, Head, LayerGroup, Mlp, ModelSpec, Moe, Norm, Placement


def spec(cfg: Config) -> ModelSpec:
    """RMSNorm before each block, rotary positions, grouped queries, gated MLP; biases where the config says so."""
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_attention_heads", cfg.size("num_attention_heads"))
    bias = cfg.flag("attention_bias", absent=False)
    mixer = attention(cfg, d_head_null=None, qkv_bias=bias, out_bias=bias)
    return uniform(cfg, mixer, gated_mlp(cfg, bias=cfg.flag("mlp_bias", absent=False)), max_seq_len=2048)


def attention(
    cfg: Config,
    *,
    heads_absent: Any = REFUSE,
    kv_absent: Any = None,
    kv_null: Any = None,
    d_head_absent: Any = None,
    d_head_null: Any = REFUSE,
    theta: float = 10_000.0,
    fraction: float = 1.0,
    **structure: Any,
) -> Attention:
    """Attention whose sizes stand under the names that Llama gave them.

    What an absent key or a null means is the family's. None: key-value heads as many as heads, d_head as it follows.
    theta, fraction: what the family's rotary positions take where their keys are absent.
    structure: every other field of Attention.
    """
    if "rope" not in structure:
        structure["rope"] = rope(cfg, theta=theta, fraction=fraction)
    n_heads = cfg.size("num_attention_heads", absent=heads_absent)
    return Attention(
        n_heads=n_heads,
        n_kv_heads=kv_heads(cfg, n_heads, absent=kv_absent, null=kv_null),
        d_head=d_head(cfg, cfg.size("hidden_size"), n_heads, absent=d_head_absent, null=d_head_null),
        **structure,
    )


def rms_norm(cfg: Config, eps: float = 1e-6, *, unit_offset: bool = False, wide: bool = False) -> Norm:
    """RMSNorm; eps: what the family takes where rms_norm_eps is absent."""
    return Norm(eps=cfg.number("rms_norm_eps", absent=eps, null=eps), unit_offset=unit_offset, wide=wide)


def gated_mlp(cfg: Config, *, bias: bool = False, fused: bool = False) -> Mlp:
    """down(act(gate(x)) * up(x)) of width intermediate_size."""
    act = activation(cfg, "hidden_act", absent="silu")
    return Mlp(d_ff=cfg.size("intermediate_size"), gated=True, bias=bias, fused=fused, activation=act)


def dense_or_moe(cfg: Config, kinds: Sequence[str], experts: Moe) -> dict[str, Mlp | Moe | None]:
    """The channel mixers of layers of `kinds`, `dense` and `moe`. A dense one is read only where some layer has it."""
    return {"dense": gated_mlp(cfg) if "dense" in kinds else None, "moe": experts}


def uniform(
    cfg: Config,
    mixer: Attention,
    channel: Mlp | Moe,
    *,
    norm: Norm | None = None,
    eps: float = 1e-6,
    placement: Placement = "pre",
    residual_scale: float = 1.0,
    residual_dropout: bool = False,
    **rest: Any,
) -> ModelSpec:
    """A model of num_hidden_layers layers that are all alike. eps: as in `rms_norm`; rest: as in `decoder`."""
    n_layers = cfg.layers("num_hidden_layers")
    if mixer.window is None:
        cfg.only("sliding_window", None, why="no layer of this family has a window")
    one_window(cfg, n_layers, mixer.window)
    norm = norm or rms_norm(cfg, eps)
    layer = LayerGroup(
        count=n_layers,
        mixer=mixer,
        channel=channel,
        norm=norm,
        placement=placement,
        residual_scale=residual_scale,
        residual_dropout=residual_dropout,
    )
    return decoder(cfg, {"layers": (layer,)}, norm=norm, **rest)


def decoder(
    cfg: Config,
    layers: dict[str, Any],
    *,
    max_seq_len: int,
    vocab_absent: Any = REFUSE,
    tied: bool = False,
    head_bias: bool = False,
    norm: Norm | None = None,
    embed_scale: float = 1.0,
    embed_norm: Norm | None = None,
    embed_weighed: bool = False,
    embed_wide: bool = False,
    logit_scale: float = 1.0,
    logit_softcap: float | None = None,
) -> ModelSpec:
    """Token embedding, `layers` (fields of ModelSpec, as `stack` makes them), final norm, head.

    max_seq_len, tied: what the family takes where max_position_embeddings or tie_word_embeddings is absent.
    """
    return ModelSpec(
        d_model=cfg.size("hidden_size"),
        vocab_size=cfg.size("vocab_size", absent=vocab_absent),
        max_seq_len=cfg.size("max_position_embeddings", absent=max_seq_len),
        embedding=Embedding(scale=embed_scale, norm=embed_norm, weighed=embed_weighed, wide=embed_wide),
        **layers,
        final_norm=norm or rms_norm(cfg),
        head=Head(
            tied=cfg.flag("tie_word_embeddings", absent=tied), bias=head_bias, scale=logit_scale, softcap=logit_softcap
        ),
    )
