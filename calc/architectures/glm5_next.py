"""GLM-5.3 (Zhipu 2026): three layers of Kimi delta attention for each of latent attention to pools of tokens that an
indexer chooses, several residual streams, and a vision tower. Also its text part alone."""

from __future__ import annotations

from calc.architectures.common import crossed_stack, mlp_kinds, without_further_tokens
from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import expert_groups, latent_attention, routed_experts
from calc.architectures.glm5_vision import glm5_tower
from calc.architectures.glm_moe_dsa import own_indexers
from calc.architectures.llama import decoder, gated_mlp, rms_norm
from calc.architectures.vision import multimodal, text_section
from calc.errors import Refused
from calc.spec import GateClamp, Indexer, Kda, LayerGroup, Mla, ModelSpec, Norm, Rope, StreamMixing

_WORDS = {"linear_attention": "linear", "indexed_attention": "indexed", "full_attention": "indexed"}


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Glm5NextConfig; the outer model is not tied unless it says so."""
    if cfg.raw["model_type"] == "glm5_next_text":
        return text(cfg)
    inner = text(text_section(cfg, "glm5_next_text"))
    return multimodal(cfg, inner, glm5_tower(cfg, inner.d_model), tied=False)


def text(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Glm5NextTextConfig: every fourth layer attends, the first three are dense, 4
    streams, of which the head reads the mean. Halves of all gated blocks are cut.

    The module that predicts a further token is left out: its residual streams are not described.
    """
    n_layers, norm = cfg.layers("num_hidden_layers"), rms_norm(cfg, 1e-5)
    cfg.only(
        "hidden_act", "silu", "swish", why="what convolutions run through; of a gate that is cut no other is known"
    )
    without_further_tokens(cfg, "num_nextn_predict_layers")
    clamp = GateClamp(limit=cfg.number("swiglu_limit", absent=10.0), alpha=1.0, shift=0.0)
    latent = _latent(cfg, norm)
    mixers = {"linear": _kda(cfg, norm), "full": latent, "shared": latent.model_copy(update={"indexer": None})}
    kinds = mlp_kinds(cfg, ["moe" if i >= 3 else "dense" for i in range(n_layers)])
    experts = routed_experts(cfg, shared=1, groups=expert_groups(cfg), scale=2.5, clamp=clamp)
    dense = gated_mlp(cfg).model_copy(update={"clamp": clamp}) if "dense" in kinds else None
    channels = {"dense": dense, "moe": experts}

    def layer(mixer: str, channel: str) -> LayerGroup:
        return LayerGroup(count=1, mixer=mixers[mixer], channel=channels[channel], norm=norm)

    mixing = StreamMixing(
        rounds=cfg.size("hc_sinkhorn_iters", absent=20),
        eps=cfg.number("hc_eps", absent=1e-6),
        norm_eps=norm.eps,
        mean=True,
    )
    streams = {"n_streams": cfg.size("hc_mult", absent=4), "stream_mixing": mixing}
    layers = crossed_stack(_mixer_kinds(cfg, n_layers), kinds, layer)
    return decoder(cfg, layers | streams, max_seq_len=1048576, norm=norm)


def _latent(cfg: Config, norm: Norm) -> Mla:
    """Queries and keys without positions, of attention and of its indexer."""
    cfg.only("qk_rope_head_dim", 0, why="queries and keys of this family do not turn")
    top_k, pool = cfg.size("index_topk", absent=2048), cfg.size("index_kpool", absent=16)
    if pool > 1:
        cfg.only("index_kpool_always_select_tail", True, why="without its own pool a sequence's start reads nothing")
    return latent_attention(
        cfg,
        q_rank_absent=1536,
        interleaved=False,
        d_value_absent=256,
        d_rope_absent=0,
        position="none",
        q_rank=cfg.size("q_lora_rank", absent=1536),
        norm=norm,
        indexer=Indexer(n_heads=cfg.size("index_n_heads", absent=32), d_head=cfg.size("index_head_dim", absent=128)),
        top_k=top_k,
        pool=pool,
    ).model_copy(update={"rope": Rope(), "scale": None})


def _kda(cfg: Config, norm: Norm) -> Kda:
    """Sizes of `linear_attn_config`, which count where they stand there, else those under names of their own."""
    nested = cfg.section("linear_attn_config", absent=None, null=None) or Config({}, f"{cfg.where}linear_attn_config.")

    def size(published: str, saved: str, default: int) -> int:
        own = cfg.size(saved, absent=default)
        return nested.size(published, absent=own)

    bound = cfg.number("linear_lower_bound", absent=-5.0, null=None)
    if nested.raw:
        bound = nested.number("gate_lower_bound", absent=bound, null=None)
        bound = -5.0 if bound is None and nested.flag("safe_gate", absent=True) else bound
    return Kda(
        n_heads=size("num_heads", "linear_num_heads", 64),
        d_head=size("head_dim", "linear_head_dim", 128),
        d_conv=size("short_conv_kernel_size", "linear_conv_kernel_dim", 4),
        norm=norm,
        bound=bound,
    )


def _mixer_kinds(cfg: Config, n_layers: int) -> list[str]:
    """`linear`, `full` or `shared` for each layer: the latter reads what the layer just before it has chosen.

    Errors: Refused where that has no indexer: transformers hands its tokens on to the next layer alone.
    """
    usual = ["linear_attention" if i % 4 != 3 else "indexed_attention" for i in range(n_layers)]
    words = cfg.words("layer_types", among=tuple(_WORDS), length=n_layers, absent=usual, null=usual)
    own = own_indexers(cfg, n_layers)
    kinds = [_WORDS[word] for word in words]
    kinds = [kind if kind == "linear" else "full" if has else "shared" for kind, has in zip(kinds, own, strict=True)]
    for i, kind in enumerate(kinds):
        if kind == "shared" and (i == 0 or kinds[i - 1] != "full"):
            raise Refused(f"{cfg.where}indexer_types", f"an indexer in layer {i - 1}, as layer {i} reuses it", "none")
    return kinds
