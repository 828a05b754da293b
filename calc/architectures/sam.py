"""Segment Anything (Kirillov et al. 2023, arXiv:2304.02643): a ViT within windows, a prompt, and masks of both."""

from __future__ import annotations

from calc.architectures import vit
from calc.architectures.common import activation, stack
from calc.architectures.config import Config
from calc.architectures.mask_decoder import mask_decoder, refuse_other_prompts, section
from calc.errors import Refused
from calc.spec import LayerGroup, Mlp, ModelSpec, Neck, Patches, WindowAttention


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' SamVisionConfig and the configs of the other parts."""
    if cfg.raw["model_type"] == "sam_vision_model":
        cfg.architecture({"SamVisionModel": True}, usual="SamVisionModel")
        return encoder(cfg)
    cfg.architecture({"SamModel": True}, usual="SamModel")
    cfg.only("tie_word_embeddings", True, why="untied, the prompt's encoder has directions of its own")
    seen = section(cfg, "vision_config")
    made = encoder(seen)
    assert made.neck is not None
    assert isinstance(made.embedding, Patches)
    if 2 * (found := seen.size("num_pos_feats", absent=128)) != made.neck.d_out:
        raise Refused(f"{seen.where}num_pos_feats", f"half of output_channels = {made.neck.d_out}", found)
    decoder = mask_decoder(cfg, made.neck.d_out, "output_channels", maps=False)
    side = made.embedding.height // made.embedding.patch_height
    refuse_other_prompts(section(cfg, "prompt_encoder_config"), made.embedding, side)
    cfg.notes.append("each picture has one prompt: a point, and no mask (n_points, given_mask of mask_decoder)")
    return made.model_copy(update={"mask_decoder": decoder})


def encoder(cfg: Config) -> ModelSpec:
    """Layers that see windows, and those of `global_attn_indexes`, which see the whole picture."""
    d_model, n_heads = cfg.size("hidden_size", absent=768), cfg.size("num_attention_heads", absent=12)
    cfg.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    cfg.only("use_rel_pos", True, why="distances along rows and columns are added to scores")
    pixels, patch = cfg.size("image_size", absent=1024), cfg.size("patch_size", absent=16)
    side = pixels // patch
    window = cfg.count("window_size", absent=14)
    d_ff = cfg.size("mlp_dim", absent=None, null=None)
    ratio = cfg.number("mlp_ratio", absent=4.0)
    bias, norm = cfg.flag("qkv_bias", absent=True), vit.layer_norm(cfg, 1e-6)
    act = activation(cfg, "hidden_act", absent="gelu")

    def layer(kind: str) -> LayerGroup:
        own = None if kind == "global" else window
        mixer = WindowAttention(n_heads=n_heads, side=own, axes=own or side, qkv_bias=bias)
        channel = Mlp(d_ff=int(d_model * ratio) if d_ff is None else d_ff, bias=True, activation=act)
        return LayerGroup(count=1, mixer=mixer, channel=channel, norm=norm)

    n_layers = cfg.size("num_hidden_layers", absent=12, limit=10**5)
    across = cfg.numbers("global_attn_indexes", absent=(2, 5, 8, 11))
    placed = cfg.flag("use_abs_pos", absent=True)
    return ModelSpec(
        d_model=d_model,
        embedding=Patches(
            height=pixels,
            width=pixels,
            patch_height=patch,
            patch_width=patch,
            channels=cfg.size("num_channels", absent=3),
            n_positions=side**2 if placed else None,
        ),
        **stack(["global" if i in across or window == 0 else "window" for i in range(n_layers)], layer),
        final_norm=None,
        neck=Neck(d_out=cfg.size("output_channels", absent=256)),
        head=None,
    )
