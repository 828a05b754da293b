"""NLLB-MoE's experts (NLLB Team 2022, arXiv:2207.04672, section 6.2), beside which its layers are M2M-100's."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.spec import Activation, Moe

DROPS = "an expert's room would depend on the text"


def kinds(cfg: Config, side: str, n_layers: int) -> list[str]:
    """`dense` or `sparse` for each layer of one side: every so many layers are sparse, none where the step is 0."""
    step = cfg.count(f"{side}_sparse_step", absent=4)
    return ["sparse" if step and (i + 1) % step == 0 else "dense" for i in range(n_layers)]


def experts(cfg: Config, side: str, act: Activation) -> Moe:
    """Each token visits the two experts that its router likes best, as in evaluation.

    There, what experts give is scaled by the share of it that training leaves in (`moe_token_dropout`).
    """
    cfg.only("second_expert_policy", "all", why="a second expert left out at random is not described")
    cfg.only("moe_eval_capacity_token_fraction", 1.0, why=DROPS)
    cfg.only("router_dtype", "float32", why="a router in another number format is not described")
    note = (
        "each token visits two experts, as published; transformers 5.23 passes every token through the first expert "
        "once for each expert but one, and through the second expert once"
    )
    if note not in cfg.notes:
        cfg.notes.append(note)
    return Moe(
        n_experts=cfg.size("num_experts"),
        top_k=2,
        d_expert=cfg.size(f"{side}_ffn_dim"),
        gated=False,
        bias=True,
        router_bias=cfg.flag("router_bias", absent=False),
        wide_router=True,
        masked=True,
        activation=act,
        as_weight=True,
        scale=1.0 - cfg.number("moe_token_dropout", absent=0.2),
    )
