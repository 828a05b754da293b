"""LongCat-Flash (Meituan 2025, arXiv:2509.01322): layers of two latent attentions and two dense blocks, around which a
shortcut leads through experts, some of which give back what they read."""

from __future__ import annotations

from math import sqrt

from calc.architectures.common import activation, stack, without_further_tokens
from calc.architectures.config import REFUSE, Config
from calc.architectures.deepseek_v3 import latent_attention
from calc.architectures.llama import decoder, rms_norm
from calc.errors import Refused
from calc.spec import LayerGroup, Mla, Mlp, ModelSpec, Moe


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' LongcatFlashConfig: 256 experts that give back what they read, weights of experts
    times 6. Each of its layers is two here: what experts beside the first dense block give is added behind the second.

    The modules that predict further tokens, which transformers skips, are left out.
    """
    n_layers, norm = cfg.layers("num_layers"), rms_norm(cfg, 1e-5)
    # Its class makes this of num_layers, or num_layers of this, and then drops an odd one.
    cfg.only("num_hidden_layers", 2 * n_layers, why="each of num_layers holds two attentions")
    without_further_tokens(cfg, "num_nextn_predict_layers")
    mixer, act = _mixer(cfg), activation(cfg, "hidden_act", absent="silu")
    d_ff = cfg.size("ffn_hidden_size")
    channels = {"first": _experts(cfg, d_ff), "second": Mlp(d_ff=d_ff, gated=True, activation=act)}

    def layer(name: str) -> LayerGroup:
        return LayerGroup(count=1, mixer=mixer, channel=channels[name], norm=norm)

    return decoder(cfg, stack(["first", "second"] * n_layers, layer), max_seq_len=131_072, norm=norm)


def _mixer(cfg: Config) -> Mla:
    """Queries and latents are multiplied with what keeps their variance as it is in a latent as wide as the stream.

    Errors: Refused for a head_dim that is not the rotary part's width, for which modeling code makes angles.
    """
    for key in ("mla_scale_q_lora", "mla_scale_kv_lora"):
        cfg.only(key, True, why="modeling code scales queries and latents whatever the config says")
    d_model, q_rank = cfg.size("hidden_size"), cfg.size("q_lora_rank")
    mixer = latent_attention(
        cfg,
        q_rank_absent=REFUSE,
        q_rank=q_rank,
        interleaved=True,
        theta=10_000_000.0,
        q_scale=sqrt(d_model / q_rank),
        latent_scale=sqrt(d_model / cfg.size("kv_lora_rank")),
    )
    cfg.only("qk_head_dim", mixer.d_nope + mixer.d_shared, None, why="queries are split into parts of these widths")
    if (turned := cfg.size("head_dim", absent=64)) != mixer.d_rope:
        raise Refused(f"{cfg.where}head_dim", f"qk_rope_head_dim = {mixer.d_rope}", turned)
    return mixer


def _experts(cfg: Config, d_ff: int) -> Moe:
    """All scored by one softmax, those among them that compute nothing too."""
    cfg.only("router_bias", False, why="modeling code makes the router's bias and does not add it")
    cfg.only(
        "zero_expert_type", "identity", None, why="of other experts without weights it is not described what they give"
    )
    n_zero = cfg.count("zero_expert_num", absent=256)
    if n_zero:
        cfg.notes.append(
            "transformers lays out matrices for experts that give back what they read, which it never multiplies with "
            "and no checkpoint holds: not counted"
        )
        cfg.notes.append("visits to such experts are counted as where all are as likely, which training holds them to")
    return Moe(
        n_experts=cfg.size("n_routed_experts"),
        n_zero=n_zero or None,
        top_k=cfg.size("moe_topk", absent=12),
        d_expert=cfg.size("expert_ffn_hidden_size"),
        d_shared=d_ff,
        activation=activation(cfg, "hidden_act", absent="silu"),
        scoring="softmax",
        renormalize=False,
        scale=cfg.number("routed_scaling_factor", absent=6.0),
        correction=True,
        late=True,
    )
