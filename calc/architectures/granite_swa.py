"""Granite with windows (IBM 2026): Granite's multipliers, attention with sinks of which every fourth layer is full, and
angles that differ from layer to layer."""

from __future__ import annotations

from calc.architectures.common import layer_kinds, stack, window_of
from calc.architectures.config import Config
from calc.architectures.granite import ends, granite_attention
from calc.architectures.llama import decoder, gated_mlp, rms_norm
from calc.errors import Refused
from calc.spec import LayerGroup, Mlp, ModelSpec, Moe


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' GraniteSWAConfig: 4 key-value heads, window 128, tied."""
    channel = gated_mlp(cfg, bias=cfg.flag("mlp_bias", absent=False))
    return sliding_granite(cfg, channel, kv_absent=4, eps=1e-5, max_seq_len=8192, tied=True)


def sliding_granite(
    cfg: Config, channel: Mlp | Moe, *, kv_absent: int | None, eps: float, max_seq_len: int, tied: bool
) -> ModelSpec:
    """Granite's layers whose attention slides or not, with these channel mixers. What the keys of the rest mean where
    they are absent is the family's."""
    n_layers = cfg.layers("num_hidden_layers")
    norm = rms_norm(cfg, eps)
    window = cfg.size("sliding_window", absent=128, null=None)
    mixer = granite_attention(cfg, kv_absent=kv_absent).model_copy(update={"sinks": True})
    attends = layer_kinds(cfg, ["sliding" if i % 4 else "full" for i in range(n_layers)])
    thetas = _thetas(cfg, n_layers, mixer.rope.theta)
    residual_scale = cfg.number("residual_multiplier", absent=1.0)

    def layer(kind: str) -> LayerGroup:
        theta = thetas[int(kind.rpartition("_")[2])]
        own = {
            "window": window_of(kind, window),
            "rope": mixer.rope.model_copy(update={"theta": theta or mixer.rope.theta}),
            "position": "rope" if theta else "none",
        }
        attention = mixer.model_copy(update=own)
        return LayerGroup(count=1, mixer=attention, channel=channel, norm=norm, residual_scale=residual_scale)

    kinds = [f"{attend}_{thetas.index(theta)}" for attend, theta in zip(attends, thetas, strict=True)]
    return decoder(cfg, stack(kinds, layer), max_seq_len=max_seq_len, norm=norm, tied=tied, **ends(cfg))


def _thetas(cfg: Config, n_layers: int, usual: float) -> list[float]:
    """The base of each layer's angles, `usual` where layer_rope_theta is not given; 0 for one that turns nothing."""
    cfg.read_keys.add("layer_rope_theta")
    given = cfg.raw.get("layer_rope_theta")
    if given is None:
        return [usual] * n_layers
    right = isinstance(given, list) and len(given) == n_layers
    if not right or not all(type(v) in (int, float) and 0 <= v < 1e300 for v in given):
        raise Refused(f"{cfg.where}layer_rope_theta", f"a list of {n_layers} numbers from 0 on", given)
    return [float(v) for v in given]
