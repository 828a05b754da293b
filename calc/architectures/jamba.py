"""Jamba (arXiv:2403.19887, 2408.12570): Mamba layers, every few of them attention, every few with experts."""

from __future__ import annotations

from calc.architectures.common import activation, stack
from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, gated_mlp, rms_norm
from calc.architectures.mamba import inner, step_rank
from calc.errors import Refused
from calc.spec import Attention, LayerGroup, Mamba, Mlp, ModelSpec, Moe


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' JambaConfig. Attention has no positions; one expert means a dense block."""
    n_layers = cfg.layers("num_hidden_layers")
    d_model = cfg.size("hidden_size")
    cfg.multiple("hidden_size", d_model, "num_attention_heads", cfg.size("num_attention_heads"))
    cfg.only("sliding_window", None, why="no layer of this family has a window")
    norm = rms_norm(cfg)
    mixers = {"attention": _attention(cfg), "mamba": _mamba(cfg, d_model)}
    act = activation(cfg, "hidden_act", absent="silu")
    n_experts = cfg.size("num_experts", absent=16)
    top_k = cfg.size("num_experts_per_tok", absent=2)
    channels: dict[str, Mlp | Moe] = {"dense": gated_mlp(cfg)}
    if n_experts > 1:
        d_expert = cfg.size("intermediate_size")
        experts = Moe(n_experts=n_experts, top_k=top_k, d_expert=d_expert, activation=act, renormalize=False)
        channels["moe"] = experts

    def layer(kind: str) -> LayerGroup:
        mixer, _, channel = kind.partition("_")
        return LayerGroup(count=n_layers, mixer=mixers[mixer], channel=channels[channel], norm=norm)

    attends = _every(cfg, "attn_layer", n_layers, period=8, offset=4)
    routes = _every(cfg, "expert_layer", n_layers, period=2, offset=1)
    kinds = [
        f"{'attention' if a else 'mamba'}_{'moe' if r and n_experts > 1 else 'dense'}"
        for a, r in zip(attends, routes, strict=True)
    ]
    return decoder(cfg, stack(kinds, layer), max_seq_len=262144)


def _attention(cfg: Config) -> Attention:
    cfg.only("head_dim", None, why="heads of this family have no width of their own")
    return attention(cfg, kv_absent=8, position="none")


def _mamba(cfg: Config, d_model: int) -> Mamba:
    cfg.only("hidden_act", "silu", "swish", why="what this family's convolutions and gates run through")
    return Mamba(
        d_inner=inner(d_model, cfg.size("mamba_expand", absent=2)),
        d_state=cfg.size("mamba_d_state", absent=16),
        d_conv=cfg.size("mamba_d_conv", absent=4),
        dt_rank=step_rank(cfg, "mamba_dt_rank"),
        bias=cfg.flag("mamba_proj_bias", absent=False),
        conv_bias=cfg.flag("mamba_conv_bias", absent=True),
        inner_norm=rms_norm(cfg),
    )


def _every(cfg: Config, name: str, n_layers: int, *, period: int, offset: int) -> list[bool]:
    """For each layer, whether its number leaves the rest `<name>_offset` when divided by `<name>_period`."""
    period = cfg.size(f"{name}_period", absent=period)
    offset = cfg.count(f"{name}_offset", absent=offset)
    if offset >= period:
        raise Refused(f"{cfg.where}{name}_offset", f"less than {name}_period = {period}", offset)
    return [i % period == offset for i in range(n_layers)]
