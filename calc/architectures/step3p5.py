"""Step 3.5 (StepFun 2026): three layers of four slide with heads of their own, a gate a head, and experts of which some
layers cut what they multiply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calc.architectures.common import layer_kinds, mlp_kinds, stack, window_of, without_further_tokens
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, rms_norm
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import Attention, GateClamp, LayerGroup, Mlp, ModelSpec, Moe, QkNorm, Rope

WHY = "the one way that is described"
OF_ITS_OWN_CODE = {
    "use_head_wise_attn_gate": True,
    "use_qk_norm": True,
    "zero_centered": True,
    "sink": False,
    "use_moe_router_bias": True,
    "norm_expert_weight": True,
    "moe_router_activation": "sigmoid",
}
"""Keys of the published code that transformers does not read -> what it does all the same."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Step3p7TextConfig: 8 key-value heads, heads 128 wide, no layer that slides, and
    experts in all layers but the first three. Lists of layers may go on for the modules that predict further tokens,
    which are left out.

    The kernels that cut halves run in every layer, and training keeps what they read, also where nothing is cut.
    """
    n_layers, cfg = cfg.layers("num_hidden_layers"), _without_further_layers(cfg)
    cfg.only("hidden_act", "silu", why="transformers takes silu whatever this key says")
    cfg.only("gating", True, "per-head", why="a gate for each value is not described")
    cfg.only("use_bidirectional_attention", False, why="tokens that see those to come are not described")
    for key, value in OF_ITS_OWN_CODE.items():
        cfg.only(key, value, why=WHY)
    norm, bias = rms_norm(cfg, 1e-5, unit_offset=True, wide=True), cfg.flag("mlp_bias", absent=False)
    attends = layer_kinds(cfg, ["full"] * n_layers)
    kinds = mlp_kinds(cfg, _sparse(cfg, n_layers))
    mixers = _mixers(cfg, attends, norm_of=QkNorm(norm=norm))
    routed, shared = (_limits(cfg, name, n_layers) for name in ("swiglu_limits", "swiglu_limits_shared"))
    cuts = [(r if kind == "moe" else None, s) for kind, r, s in zip(kinds, routed, shared, strict=True)]
    different = list(dict.fromkeys(cuts))

    def layer(name: str) -> LayerGroup:
        attend, kind, *which = name.split("_")
        routed, shared = (GateClamp(limit=limit, activated=True) for limit in different[int(which[0]) if which else 0])
        dense = Mlp(d_ff=cfg.size("intermediate_size"), gated=True, bias=bias, activation="silu", clamp=shared)
        channel = dense if kind == "dense" else _experts(cfg, bias, routed, shared)
        return LayerGroup(count=1, mixer=mixers[attend], channel=channel, norm=norm)

    numbers = [different.index(cut) for cut in cuts]
    names = [f"{a}_{k}" + (f"_{n}" if n else "") for a, k, n in zip(attends, kinds, numbers, strict=True)]
    return decoder(cfg, stack(names, layer), max_seq_len=128000, norm=norm)


def _without_further_layers(cfg: Config) -> Config:
    """The same config with lists of as many layers as the model has."""
    without_further_tokens(cfg, "num_nextn_predict_layers")
    n, more = cfg.layers("num_hidden_layers"), cfg.raw.get("num_nextn_predict_layers", 0)
    lists = ("layer_types", "mlp_layer_types", "swiglu_limits", "swiglu_limits_shared")
    lists += ("rope_theta", "partial_rotary_factors")
    given: dict[str, Any] = {key: cfg.raw.get(key) for key in lists}
    cut = {key: value[:n] for key, value in given.items() if isinstance(value, list) and len(value) == n + more}
    made = Config(cfg.raw | cut, cfg.where, cfg.tying, cfg.family)
    made.notes, made.read_keys, made.absent, made.sections = cfg.notes, cfg.read_keys, cfg.absent, cfg.sections
    return made


def _mixers(cfg: Config, attends: Sequence[str], norm_of: QkNorm) -> dict[str, Attention]:
    """Attention of either kind of layers: those that slide may have other query heads."""
    bias = cfg.flag("attention_bias", absent=False)
    turning = {kind: _rope(cfg, kind, attends) for kind in dict.fromkeys(attends)}
    full = attention(
        cfg,
        kv_absent=8,
        kv_null=REFUSE,
        d_head_absent=128,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=norm_of,
        head_gate="sigmoid",
        rope=Rope(),
    )
    scale = cfg.number("query_pre_attn_scalar", absent=None, null=None)
    if scale is not None and scale <= 0:
        raise Refused(f"{cfg.where}query_pre_attn_scalar", "a number above 0", scale)
    n_heads, n_kv_heads = _sliding_heads(cfg, full, attends), full.kv_heads
    if n_heads % n_kv_heads:
        raise Refused(f"{cfg.where}num_sliding_attention_heads", f"a multiple of {n_kv_heads}", n_heads)
    window = cfg.size("sliding_window", absent=None, null=None)
    heads = {"full": full.n_heads, "sliding": n_heads}
    return {
        kind: full.model_copy(
            update={
                "n_heads": heads[kind],
                "n_kv_heads": None if n_kv_heads == heads[kind] else n_kv_heads,
                "window": window_of(kind, window),
                "rope": turning[kind],
                "scale": None if scale in (None, full.d_head) else scale**-0.5,
            }
        )
        for kind in turning
    }


def _sliding_heads(cfg: Config, full: Attention, attends: Sequence[str]) -> int:
    """Query heads of layers that slide; the published code's other sizes of theirs must be those of all layers."""
    other = cfg.section("attention_other_setting", absent=None, null=None)
    n_heads = cfg.size("num_sliding_attention_heads", absent=None, null=None)
    if other is not None:
        own = other.size("num_attention_heads", absent=full.n_heads)
        n_heads = own if n_heads is None else n_heads
        other.only("num_attention_heads", n_heads, why="as num_sliding_attention_heads")
        other.only("attention_type", "sliding_attention", why=WHY)
        other.only("num_attention_groups", full.kv_heads, why="key-value heads are those of all layers")
        for key in ("head_dim", "true_head_dim"):
            other.only(key, full.d_head, why="heads are as wide as those of all layers")
    n_heads = full.n_heads if n_heads is None else n_heads
    said = {str(i): {"num_attention_heads": n_heads} for i, kind in enumerate(attends) if kind == "sliding"}
    none: tuple[dict[str, Any], ...] = ({},) if n_heads == full.n_heads else ()
    cfg.only("per_layer_config", said, *none, why="layers that slide differ in their query heads, and others do not")
    return n_heads


def _rope(cfg: Config, kind: str, attends: Sequence[str]) -> Rope:
    """Angles of the layers of a kind: of its entry, or by the lists of all layers, where rope_scaling is that of layers
    that do not slide."""
    if cfg.section("rope_parameters", absent=None, null=None) is not None:
        return rope(cfg, layers=f"{kind}_attention")
    cfg.only("partial_rotary_factor", None, 1.0, 1, why="partial_rotary_factors has one for each layer")
    angles = {
        "rope_type": "default",
        "rope_theta": _of_kind(cfg, "rope_theta", kind, attends, 10_000.0),
        "partial_rotary_factor": _of_kind(cfg, "partial_rotary_factors", kind, attends, 1.0),
    }
    scaling = cfg.section("rope_scaling", absent=None, null=None)
    if scaling is not None:
        scaling.only("type", None, why="rope_type, as transformers reads it")
        cfg.only("yarn_only_types", None, ["full_attention"], why="layers that slide are not stretched")
        angles |= scaling.raw if kind == "full" else {}
    return rope(Config(cfg.raw | {"rope_parameters": angles, "rope_theta": None}, cfg.where, cfg.tying, cfg.family))


def _of_kind(cfg: Config, name: str, kind: str, attends: Sequence[str], absent: float) -> float:
    """What a list has for all layers of a kind; or a number for all layers."""
    if not isinstance(cfg.raw.get(name), list):
        return cfg.number(name, absent=absent)
    given = cfg.factors(name)
    found = {value for value, own in zip(given, attends, strict=False) if own == kind}
    if len(given) != len(attends) or len(found) != 1:
        raise Refused(cfg.where + name, f"a number for each of {len(attends)} layers, alike in those of a kind", given)
    return found.pop()


def _sparse(cfg: Config, n_layers: int) -> list[str]:
    """`moe` for layers that moe_layers_enum names, in a list or a word with commas; else for all from the fourth on."""
    given: Any = cfg.raw.get("moe_layers_enum")
    cfg.read_keys.add("moe_layers_enum")
    if given is None:
        return ["moe" if i >= 3 else "dense" for i in range(n_layers)]
    words = given.split(",") if isinstance(given, str) else given
    try:
        chosen = {int(each) for each in words if str(each).strip()}
    except (TypeError, ValueError):
        raise Refused(f"{cfg.where}moe_layers_enum", "numbers of layers", given) from None
    return ["moe" if i in chosen else "dense" for i in range(n_layers)]


def _limits(cfg: Config, name: str, n_layers: int) -> list[float | None]:
    """For each layer where its halves are cut, None where nowhere, which 0 means too."""
    given: Any = cfg.raw.get(name)
    cfg.read_keys.add(name)
    if given is None:
        return [None] * n_layers
    numbers = isinstance(given, list) and all(v is None or (type(v) in (int, float) and v >= 0) for v in given)
    if not numbers or len(given) != n_layers:
        raise Refused(cfg.where + name, f"a number from 0 on, or null, for each of {n_layers} layers", given)
    return [float(each) if each else None for each in given]


def _experts(cfg: Config, bias: bool, routed: GateClamp, shared: GateClamp) -> Moe:
    return Moe(
        n_experts=cfg.size("n_routed_experts"),
        top_k=cfg.size("num_experts_per_tok"),
        d_expert=cfg.size("moe_intermediate_size"),
        d_shared=cfg.size("share_expert_dim"),
        shared_bias=bias,
        scoring="sigmoid",
        correction=True,
        scale=cfg.number("moe_router_scaling_factor", absent=1.0),
        clamp=routed,
        shared_clamp=shared,
    )
