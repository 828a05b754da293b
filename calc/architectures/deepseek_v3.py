"""DeepSeek-V3 and R1 (arXiv:2412.19437, 2501.12948), Kimi K2 (arXiv:2507.20534), and the pieces of their layers that
other families build on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from calc.architectures.common import activation, stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import decoder, dense_or_moe, rms_norm
from calc.architectures.rope import rope
from calc.spec import Attention, ExpertGroups, LayerGroup, Mla, Mlp, ModelSpec, Moe, Mtp, Norm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' DeepseekV3Config: queries from a latent of 1536 unless `q_lora_rank` is null, the
    first 3 layers dense, one shared expert, one module that predicts a further token."""
    interleaved = cfg.flag("rope_interleave", absent=True, null=False)
    mixer = latent_attention(cfg, q_rank_absent=1536, interleaved=interleaved)
    kinds = dense_then_moe(cfg, cfg.layers("num_hidden_layers"), first=3)
    experts = routed_experts(cfg, shared=1, groups=expert_groups(cfg, 8, 4), scale=2.5)
    return latent_decoder(cfg, mixer, kinds, experts, max_seq_len=4096, mtp=1)


def latent_attention(
    cfg: Config,
    *,
    q_rank_absent: Any,
    interleaved: bool,
    d_value_absent: Any = REFUSE,
    default: dict[str, Any] | None = None,
    theta: float = 10_000.0,
    d_rope_absent: Any = REFUSE,
    **structure: Any,
) -> Mla:
    """Multi-head latent attention whose sizes stand under the names that DeepSeek-V2 gave them.

    q_rank_absent: what an absent q_lora_rank means; a null always means queries without a latent.
    d_value_absent: what a v_head_dim means that is absent or null.
    default: the `rope_parameters` of a family that has some where the config has none. theta: as in `rope`.
    d_rope_absent: what an absent qk_rope_head_dim means; 0 of it is none, where nothing turns.
    structure: every other field of Mla. A head_dim beside them is not read: it is the width of the rotary part.
    """
    n_heads = cfg.size("num_attention_heads")
    cfg.only("num_key_value_heads", n_heads, None, why="every head has keys and values of its own")
    widths = cfg.count if structure.get("position") == "none" else cfg.size
    d_nope, d_rope = cfg.size("qk_nope_head_dim"), widths("qk_rope_head_dim", absent=d_rope_absent)
    return Mla(
        n_heads=n_heads,
        **({"q_rank": cfg.size("q_lora_rank", absent=q_rank_absent, null=None)} | structure),
        kv_rank=cfg.size("kv_lora_rank"),
        d_nope=d_nope,
        d_rope=d_rope or None,
        d_value=cfg.size("v_head_dim", absent=d_value_absent, null=d_value_absent),
        bias=cfg.flag("attention_bias", absent=False),
        rope=rope(cfg, interleaved=interleaved, default=default, theta=theta).model_copy(update={"fraction": 1.0}),
        scale=_scale(cfg, d_nope + d_rope, default),
    )


def _scale(cfg: Config, d_query: int, default: dict[str, Any] | None) -> float | None:
    """1 / sqrt(d_query), times the square of YaRN's factor where `mscale_all_dim` says so; None where it does not."""
    section = next((cfg.raw[key] for key in ("rope_parameters", "rope_scaling") if cfg.raw.get(key)), default)
    if not isinstance(section, dict) or section.get("rope_type", section.get("type", "default")) == "default":
        return None
    share, factor = section.get("mscale_all_dim"), section.get("factor")
    if not isinstance(share, int | float) or not isinstance(factor, int | float) or not share or factor <= 1:
        return None
    return (0.1 * share * math.log(factor) + 1) ** 2 / math.sqrt(d_query)


def dense_then_moe(cfg: Config, n_layers: int, *, first: Any) -> list[str]:
    """`dense` for the first `first_k_dense_replace` layers and `moe` for the rest. first: what absent means."""
    cfg.only("moe_layer_freq", 1, why="implementations differ in what another period means")
    dense = cfg.count("first_k_dense_replace", absent=first)
    return ["dense"] * min(dense, n_layers) + ["moe"] * max(n_layers - dense, 0)


def routed_experts(
    cfg: Config,
    *,
    shared: int,
    groups: ExpertGroups | None,
    scale: float = 1.0,
    keys: tuple[str, str] = ("n_routed_experts", "n_shared_experts"),
    scale_key: str = "routed_scaling_factor",
    **own: Any,
) -> Moe:
    """Experts chosen by sigmoid scores, within the best `groups` of them; shared ones side by side as one MLP.

    shared, scale: what the number of shared experts and routed_scaling_factor mean where they are absent.
    keys, scale_key: what the family calls the numbers of routed and of shared experts, and that factor.
    own: fields of Moe that the family has otherwise.
    The bias that is added to scores only to choose (`e_score_correction_bias`) is a buffer, no parameter: the optimizer
    does not touch it. Published counts include it, n_experts for each layer.
    """
    d_expert = cfg.size("moe_intermediate_size")
    n_shared = cfg.count(keys[1], absent=shared, null=0)
    usual = {
        "scoring": "sigmoid",
        "correction": True,
        "renormalize": cfg.flag("norm_topk_prob", absent=True),
        "scale": cfg.number(scale_key, absent=scale, null=1.0),
    }
    return Moe(
        n_experts=cfg.size(keys[0]),
        top_k=cfg.size("num_experts_per_tok"),
        d_expert=d_expert,
        d_shared=n_shared * d_expert or None,
        activation=activation(cfg, "hidden_act", absent="silu"),
        groups=groups,
        **(usual | own),
    )


def expert_groups(
    cfg: Config, count: int = 1, chosen: int = 1, *, by: Literal["best", "two"] = "two"
) -> ExpertGroups | None:
    """The groups that a token's experts are chosen within; None where there is one group or all may be chosen from.

    count, chosen: what the family takes where n_group and topk_group are absent.
    """
    count = cfg.size("n_group", absent=count, null=1)
    chosen = cfg.size("topk_group", absent=chosen, null=count)
    return None if chosen >= count else ExpertGroups(count=count, chosen=chosen, by=by)


def latent_decoder(
    cfg: Config,
    mixer: Mla,
    kinds: Sequence[str],
    experts: Moe,
    *,
    max_seq_len: int,
    eps: float = 1e-6,
    mtp: int = 0,
    mixers: Sequence[Mla] | None = None,
) -> ModelSpec:
    """A decoder whose layer i has a channel mixer of `kinds[i]`, `dense` or `moe`.

    eps: as in `rms_norm`. mixers: the attention of each layer, where they differ. mtp: modules that predict further
    tokens, where `num_nextn_predict_layers` is absent; each has `mixer` and experts.
    """
    norm = rms_norm(cfg, eps)
    channels = dense_or_moe(cfg, kinds, experts)
    each = list(mixers) if mixers is not None else [mixer] * len(kinds)
    names = [kind if m == mixer else f"{kind}_shared" for kind, m in zip(kinds, each, strict=True)]
    of_name = dict(zip(names, each, strict=True))

    def layer(name: str) -> LayerGroup:
        return LayerGroup(count=1, mixer=of_name[name], channel=channels[name.removesuffix("_shared")], norm=norm)

    made = decoder(cfg, stack(names, layer), max_seq_len=max_seq_len, norm=norm)
    return made.model_copy(update={"mtp": mtp_modules(cfg, mixer, experts, norm, absent=mtp)})


def mtp_modules(cfg: Config, mixer: Attention | Mla, channel: Mlp | Moe, norm: Norm, *, absent: int) -> Mtp | None:
    """The modules that predict further tokens, each with a layer of these blocks; None where there are none.

    absent: how many where `num_nextn_predict_layers` is not there.
    """
    count = cfg.count("num_nextn_predict_layers", absent=absent or None, null=None)
    return Mtp(count=count, mixer=mixer, channel=channel, norm=norm) if count else None
