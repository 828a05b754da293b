"""SmolLM3 (Hugging Face 2025): Llama's block, every fourth layer without positions."""

from __future__ import annotations

from calc.architectures.common import layer_kinds, sliding_stack
from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, gated_mlp, rms_norm
from calc.errors import Refused
from calc.spec import ModelSpec


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' SmolLM3Config: 4 key-value heads, tied. With `use_sliding_window` the layers without
    positions slide, unless `layer_types` says otherwise."""
    n_layers = cfg.layers("num_hidden_layers")
    bias = cfg.flag("attention_bias", absent=False)
    mixer = attention(cfg, kv_absent=4, theta=2_000_000.0, qkv_bias=bias, out_bias=bias)
    channel = gated_mlp(cfg, bias=cfg.flag("mlp_bias", absent=False))
    window = cfg.size("sliding_window", absent=None, null=None)
    in_use = cfg.flag("use_sliding_window", absent=False) and window is not None
    turned = with_rope(cfg, n_layers)
    attention_kinds = layer_kinds(cfg, ["sliding" if in_use and not turn else "full" for turn in turned])

    def position(kind: str) -> dict[str, str]:
        return {"position": "rope" if kind.endswith("_rope") else "none"}

    kinds = [f"{a}_{'rope' if turn else 'nope'}" for a, turn in zip(attention_kinds, turned, strict=True)]
    layers = sliding_stack(kinds, mixer, window, position, channel=channel, norm=rms_norm(cfg))
    return decoder(cfg, layers, max_seq_len=32768, tied=True)


def with_rope(cfg: Config, n_layers: int) -> list[bool]:
    """Which layers turn queries and keys: a non-zero entry of `no_rope_layers`; else all but every n-th,
    n = `no_rope_layer_interval`."""
    given = cfg.numbers("no_rope_layers", absent=None, null=None)
    interval = cfg.size("no_rope_layer_interval", absent=4 if given is None else None)
    if given is None:
        return [(i + 1) % interval != 0 for i in range(n_layers)]
    if len(given) < n_layers:
        raise Refused(f"{cfg.where}no_rope_layers", f"at least {n_layers} numbers", f"{len(given)}")
    return [bool(n) for n in given[:n_layers]]
