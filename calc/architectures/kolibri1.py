"""Kolibri 1 (Aleph Alpha 2026): EXAONE 4's attention, which turns no queries and keys where it does not slide, norms on
both sides of every block, and experts beside a shared one in every layer."""

from __future__ import annotations

from calc.architectures.common import activation, layer_kinds, sliding_stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, rms_norm
from calc.spec import ModelSpec, Moe, QkNorm


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Kolibri1Config: 4 key-value heads, heads 128 wide, window 513, every fifth layer
    full. Its class makes masks of both kinds and never runs without a window."""
    for key in ("attention_bias", "mlp_bias"):
        cfg.only(key, False, None, why="matrices of this family have no bias")
    n_layers = cfg.layers("num_hidden_layers")
    window = cfg.size("sliding_window", absent=513)
    norm = rms_norm(cfg)
    mixer = attention(cfg, kv_absent=4, kv_null=REFUSE, d_head_absent=128, qk_norm=QkNorm(norm=norm))
    kinds = layer_kinds(cfg, ["sliding" if (i + 1) % 5 else "full" for i in range(n_layers)])

    def position(kind: str) -> dict[str, str]:
        return {"position": "rope" if kind == "sliding" else "none"}

    layers = sliding_stack(kinds, mixer, window, position, channel=_experts(cfg), norm=norm, placement="sandwich")
    return decoder(cfg, layers, max_seq_len=262144, norm=norm)


def _experts(cfg: Config) -> Moe:
    return Moe(
        n_experts=cfg.size("num_experts"),
        top_k=cfg.size("num_experts_per_tok"),
        d_expert=cfg.size("moe_intermediate_size"),
        d_shared=cfg.size("shared_expert_intermediate_size"),
        activation=activation(cfg, "hidden_act", absent="silu"),
        scoring="sigmoid",
        correction=True,
        corrected="logits",
        renormalize=cfg.flag("norm_topk_prob", absent=False),
    )
