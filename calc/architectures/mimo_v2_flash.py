"""MiMo-V2-Flash (Xiaomi 2025): values narrower than keys, five layers of six with a short window, sinks and twice the
key-value heads, experts in all layers but the first."""

from __future__ import annotations

from collections.abc import Sequence

from calc.architectures.common import layer_kinds, mlp_kinds, stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.deepseek_v3 import expert_groups, routed_experts
from calc.architectures.llama import attention, decoder, gated_mlp
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import Attention, LayerGroup, ModelSpec, Norm, Rope


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' MiMoV2FlashConfig: 4 key-value heads, keys 192 and values 128 wide, window 129.

    The checkpoint's own keys (hybrid_layer_pattern, swa_*) must say what transformers makes of the others. The
    modules that predict further tokens are left out.
    """
    cfg.only("n_shared_experts", None, 0, why="no implementation has shared experts here")
    n_layers = cfg.layers("num_hidden_layers")
    norm = Norm(eps=cfg.number("rms_norm_eps", "layernorm_epsilon", absent=1e-5))
    mixers = {kind: _attention(cfg, kind) for kind in ("full", "sliding")}
    channels = {"dense": gated_mlp(cfg), "moe": routed_experts(cfg, shared=0, groups=expert_groups(cfg))}

    def layer(kind: str) -> LayerGroup:
        mixer, _, channel = kind.partition("_")
        return LayerGroup(count=1, mixer=mixers[mixer], channel=channels[channel], norm=norm)

    kinds = [f"{a}_{b}" for a, b in zip(_mixer_kinds(cfg, n_layers), _channel_kinds(cfg, n_layers), strict=True)]
    return decoder(cfg, stack(kinds, layer), max_seq_len=131072, norm=norm)


def _mixer_kinds(cfg: Config, n_layers: int) -> Sequence[str]:
    """The first layer and every sixth are full."""
    kinds = layer_kinds(cfg, ["sliding" if i and (i + 1) % 6 else "full" for i in range(n_layers)])
    pattern = [int(kind == "sliding") for kind in kinds]
    cfg.only("hybrid_layer_pattern", None, pattern, why="1 for each layer that slides, as transformers has it")
    return kinds


def _channel_kinds(cfg: Config, n_layers: int) -> list[str]:
    """The first layer is dense."""
    kinds = mlp_kinds(cfg, ["moe" if i else "dense" for i in range(n_layers)])
    pattern = [int(kind == "moe") for kind in kinds]
    cfg.only("moe_layer_freq", None, pattern, why="1 for each layer with experts, as transformers has it")
    return kinds


def _attention(cfg: Config, kind: str) -> Attention:
    """Layers of either kind differ in window, sinks and key-value heads."""
    bias = cfg.flag("attention_bias", absent=False)
    d_value = cfg.size("v_head_dim", absent=128)
    mixer = attention(
        cfg,
        kv_absent=4,
        kv_null=REFUSE,
        d_head_absent=192,
        d_value=d_value,
        qkv_bias=bias,
        softmax="model",
        value_scale=cfg.number("attention_value_scale", absent=0.707, null=1.0),
        rope=_rope(cfg, kind),
    )
    n_kv_heads = mixer.kv_heads
    if kind == "full":
        cfg.only("add_full_attention_sink_bias", False, why="full layers have no sinks")
        return mixer
    twice = 2 * n_kv_heads
    for name, value in (
        ("swa_num_attention_heads", mixer.n_heads),
        ("swa_num_key_value_heads", twice),
        ("swa_head_dim", mixer.d_head),
        ("swa_v_head_dim", d_value),
    ):
        cfg.only(name, value, why="sliding layers have twice the key-value heads and otherwise the same sizes")
    cfg.only("add_swa_attention_sink_bias", True, why="sliding layers always have sinks")
    if mixer.n_heads % twice:
        raise Refused(f"{cfg.where}num_key_value_heads", f"half a divisor of {mixer.n_heads} heads", n_kv_heads)
    own = {"n_kv_heads": None if twice == mixer.n_heads else twice, "window": _window(cfg), "sinks": True}
    return mixer.model_copy(update=own)


def _rope(cfg: Config, kind: str) -> Rope:
    """A third of each head turns, by angles that differ between the kinds."""
    if kind == "full":
        return rope(cfg, theta=5_000_000.0, fraction=0.334, layers="full_attention")
    return rope(cfg, fraction=0.334, layers="sliding_attention", theta_key="swa_rope_theta")


def _window(cfg: Config) -> int:
    """`sliding_window_size` counts the tokens before a token, `sliding_window` the token itself too."""
    window = cfg.size("sliding_window", absent=129)
    before = cfg.size("sliding_window_size", absent=None, null=None)
    return window if before is None else before + 1
