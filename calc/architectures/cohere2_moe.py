"""Command A's mixtures of experts (Cohere 2026): Cohere 2's parallel block with experts, behind dense first layers."""

from __future__ import annotations

from typing import Any

from calc.architectures.cohere import ends
from calc.architectures.common import activation, crossed_stack, layer_kinds, layer_norm, mlp_kinds, window_of
from calc.architectures.config import Config
from calc.architectures.llama import attention, decoder, rms_norm
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import LayerGroup, Mlp, ModelSpec, Moe, Norm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Cohere2MoeConfig: heads 128 wide, 8 experts, no dense layers, every fourth layer
    full and without positions; with a pattern of 1 for them, dense layers turn whatever they attend to."""
    n_layers = cfg.layers("num_hidden_layers")
    bias = cfg.flag("attention_bias", absent=False)
    window = cfg.size("sliding_window", absent=4096, null=None)
    first = min(cfg.count("first_k_dense_replace", absent=0), n_layers)
    prefix = cfg.size("prefix_dense_sliding_window_pattern", absent=1)
    kinds = mlp_kinds(cfg, ["dense" if i < first else "moe" for i in range(n_layers)])
    attends = layer_kinds(cfg, _pattern(cfg, first, n_layers, prefix))
    norm = _norm(cfg)
    act = activation(cfg, "hidden_act", absent="silu")
    made: dict[str, Mlp | Moe | None] = {"dense": None, "moe": None}
    if "dense" in kinds:
        made["dense"] = Mlp(d_ff=cfg.size("prefix_dense_intermediate_size"), gated=True, activation=act)
    if "moe" in kinds:
        made["moe"] = _experts(cfg, act)
    mixer = attention(cfg, d_head_absent=128, qkv_bias=bias, out_bias=bias, rope=rope(cfg, interleaved=True))

    def layer(attend: str, kind: str) -> LayerGroup:
        turns = attend == "sliding" or (kind == "dense" and prefix == 1)
        own = {"window": window_of(attend, window), "position": "rope" if turns else "none"}
        return LayerGroup(
            count=1, mixer=mixer.model_copy(update=own), channel=made[kind], norm=norm, placement="parallel"
        )

    return decoder(cfg, crossed_stack(attends, kinds, layer), norm=norm, **ends(cfg))


def _pattern(cfg: Config, first: int, n_layers: int, prefix: int) -> list[str]:
    """Each kind of layer counts its own: every so many of them are full."""
    period = cfg.size("sliding_window_pattern", absent=4)
    parts = ((first, prefix), (n_layers - first, period))
    return ["sliding" if (i + 1) % every else "full" for n, every in parts for i in range(n)]


def _norm(cfg: Config) -> Norm:
    """RMSNorm where rms_norm_eps is given, else LayerNorm without bias."""
    eps: Any = cfg.number("rms_norm_eps", absent=None, null=None)
    return layer_norm(cfg, "layer_norm_eps", bias=False) if eps is None else rms_norm(cfg)


def _experts(cfg: Config, act: Any) -> Moe:
    """Experts are chosen by their scores as they are, and weighed by a softmax over those of the chosen, or by sigmoids
    that may be divided by their sum."""
    d_ff = cfg.size("intermediate_size")
    n_shared = cfg.count("num_shared_experts", absent=0)
    if n_shared:
        cfg.only("shared_expert_combination_strategy", "sum", why="halves of both sums are not described")
        if "shared_expert_combination_strategy" not in cfg.raw:
            raise Refused(f"{cfg.where}shared_expert_combination_strategy", "sum (the class takes average)", "nothing")
    scoring: Any = cfg.choice(
        "expert_selection_fn", among={"softmax": "softmax", "sigmoid": "sigmoid"}, absent="softmax"
    )
    return Moe(
        n_experts=cfg.size("num_experts", absent=8),
        top_k=cfg.size("num_experts_per_tok", absent=2),
        d_expert=d_ff,
        d_shared=n_shared * d_ff or None,
        activation=act,
        scoring=scoring,
        renormalize=cfg.flag("norm_topk_prob", absent=True) or scoring == "softmax",
    )
