"""Gemma 4's language model (Google, 2026): Gemma 3's layers with wider heads and keys that serve as values in the full
ones, layers that reuse earlier keys and values, inputs of their own for every layer, experts beside the dense MLP."""

from __future__ import annotations

from typing import Any, NamedTuple

from calc.architectures.common import activation, alternating, layer_kinds, stack
from calc.architectures.config import Config
from calc.architectures.gemma3n_text import first_reuse, normed_attention
from calc.architectures.llama import decoder, rms_norm
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import LayerGroup, Mlp, ModelSpec, Moe, PerLayerInputs, Rope


class _Layer(NamedTuple):
    """What tells one layer from another. kind: sliding or full. kv: as in Attention."""

    kind: str
    d_head: int
    n_kv_heads: int
    kv: str

    @property
    def name(self) -> str:
        return f"{self.kind}_reuse" if self.kv == "earlier" else self.kind


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Gemma4TextConfig: 4 key-value heads, heads 256 wide and 512 in full layers, window
    512, every sixth layer full, inputs of 256 values for every layer, tied. The last layer is always full.

    `layer_scalar`, what leaves a layer is multiplied with, is no parameter but a buffer, and is not counted.
    """
    cfg.only("use_bidirectional_attention", None, "vision", why="text that sees later text is not described")
    norm = rms_norm(cfg, wide=True)
    mixer = normed_attention(cfg, norm, _rope(cfg, "full"), kv_absent=4)
    layers = _layers(cfg, mixer.kv_heads, mixer.d_head or 0)
    window = cfg.size("sliding_window", absent=512)
    of_name = {layer.name: layer for layer in layers}
    channels = {name: _channel(cfg, layer) for name, layer in of_name.items()}

    def group(name: str) -> LayerGroup:
        layer = of_name[name]
        own = {
            "window": window if layer.kind == "sliding" else None,
            "d_head": layer.d_head,
            "n_kv_heads": None if layer.n_kv_heads == mixer.n_heads else layer.n_kv_heads,
            "kv": layer.kv,
            "rope": _rope(cfg, layer.kind),
        }
        return LayerGroup(
            count=len(layers),
            mixer=mixer.model_copy(update=own),
            channel=channels[name],
            norm=norm,
            placement="sandwich",
            out_scale=True,
        )

    d_per_layer = cfg.count("hidden_size_per_layer_input", absent=256)
    rows = cfg.size("vocab_size_per_layer_input", absent=262144 if d_per_layer else None)
    act = activation(cfg, "hidden_activation", absent="gelu_tanh")
    per_layer = PerLayerInputs(vocab_size=rows, d_per_layer=d_per_layer, activation=act) if d_per_layer else None
    stacked = stack([layer.name for layer in layers], group) | {"per_layer": per_layer}
    return decoder(cfg, stacked, max_seq_len=131072, tied=True, **ends(cfg))


def ends(cfg: Config) -> dict[str, Any]:
    """What is around the layers: scaled tokens, the norm behind, capped logits."""
    return {
        "norm": rms_norm(cfg, wide=True),
        "embed_scale": cfg.size("hidden_size") ** 0.5,
        "logit_softcap": cfg.number("final_logit_softcapping", absent=None, null=None),
    }


def _rope(cfg: Config, kind: str) -> Rope:
    """A quarter of the pairs of full layers turns, and all of the others', where the config says nothing."""
    if cfg.raw.get("rope_parameters") is not None:
        given = rope(cfg, layers=f"{kind}_attention")
        if given.fraction != 1 and not given.proportional:
            raise Refused(f"{cfg.where}partial_rotary_factor", "1, unless rope_type is proportional", given.fraction)
        return given
    return Rope(theta=1_000_000.0, fraction=0.25, proportional=True) if kind == "full" else Rope()


def _layers(cfg: Config, n_kv_heads: int, d_head: int) -> list[_Layer]:
    """Every layer in order."""
    n_layers = cfg.layers("num_hidden_layers")
    kinds = [*layer_kinds(cfg, alternating(n_layers, 6))[:-1], "full"]
    sizes = _sizes_of_kinds(cfg, kinds)
    first = first_reuse(cfg, kinds, absent=0)
    keys_as_values = cfg.flag("attention_k_eq_v", absent=False)
    made = []
    for i, kind in enumerate(kinds):
        kv = "earlier" if i >= first else "keys" if keys_as_values and kind == "full" else "own"
        own = sizes.get(kind, {})
        made.append(_Layer(kind, own.get("head_dim", d_head), own.get("num_key_value_heads", n_kv_heads), kv))
    return made


def _sizes_of_kinds(cfg: Config, kinds: list[str]) -> dict[str, dict[str, int]]:
    """Sizes that layers of a kind have of their own: what `per_layer_config` says, where the key is there at all, else
    `global_head_dim` and, if keys serve as values, `num_global_key_value_heads` for the full layers."""
    if "per_layer_config" in cfg.raw:
        table = cfg.section("per_layer_config", null=None)
        rows = {} if table is None else dict(_row(cfg, table, key, len(kinds)) for key in table.raw)
        of_kind = {kind: rows.get(i, {}) for i, kind in reversed(list(enumerate(kinds)))}
        for i, kind in enumerate(kinds):
            if rows.get(i, {}) != of_kind[kind]:
                raise Refused(
                    f"{cfg.where}per_layer_config", f"the same sizes for all {kind} layers", f"layer {i} differs"
                )
        return of_kind
    sizes = {"head_dim": cfg.size("global_head_dim", absent=512)}
    kv_heads = cfg.size("num_global_key_value_heads", absent=None, null=None)
    if kv_heads is not None and cfg.flag("attention_k_eq_v", absent=False):
        sizes["num_key_value_heads"] = kv_heads
    return {"full": sizes}


def _row(cfg: Config, table: Config, key: str, n_layers: int) -> tuple[int, dict[str, int]]:
    """(number of a layer, its own sizes)."""
    if not key.isdecimal() or int(key) >= n_layers:
        raise Refused(f"{cfg.where}per_layer_config", f"numbers of layers below {n_layers}", key)
    row = table.section(key)
    if unknown := sorted(row.raw.keys() - {"head_dim", "num_key_value_heads"}):
        raise Refused(row.where + unknown[0], "head_dim and num_key_value_heads only", row.raw[unknown[0]])
    return int(key), {name: row.size(name) for name in row.raw}


def _channel(cfg: Config, layer: _Layer) -> Mlp | Moe:
    """The dense MLP, twice as wide in layers without keys of their own if `use_double_wide_mlp`; with experts beside it
    if `enable_moe_block`."""
    wide = cfg.flag("use_double_wide_mlp", absent=False) and layer.kv == "earlier"
    d_ff = cfg.size("intermediate_size") * (2 if wide else 1)
    act = activation(cfg, "hidden_activation", absent="gelu_tanh")
    if not cfg.flag("enable_moe_block", absent=False):
        return Mlp(d_ff=d_ff, gated=True, activation=act)
    return Moe(
        n_experts=cfg.size("num_experts"),
        top_k=cfg.size("top_k_experts"),
        d_expert=cfg.size("moe_intermediate_size"),
        d_shared=d_ff,
        dense_norm=rms_norm(cfg, wide=True),
        scaled_router=True,
        activation=act,
    )
