"""Denoisers of latents by diffusers' config.json, whose `_class_name` says what they are: one step of denoising.

Source: diffusers 0.42, models/transformers/dit_transformer_2d.py, transformer_sd3.py and transformer_flux.py. Defaults
as in the constructors of these classes.
"""

from __future__ import annotations

from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Activation, Conditioning, Denoised, Denoising, Latents, LayerGroup, ModelSpec, Norm

ACTIVATIONS: dict[str, Activation] = {"gelu-approximate": "gelu_tanh", "gelu": "gelu"}
SD3_TEXT, FLUX_TEXT, FLUX_SIDE = 77 + 256, 512, 64
"""Vectors of text: CLIP's 77 and T5's 256; FLUX.1's 512. Packed latents along a side of 1024 pixels."""
PIXELS, PACKED_PIXELS = 8, 16
"""Pixels along a side of one latent, as the autoencoders of all three make them, and of FLUX.1's packed 2 x 2. Source:
diffusers 0.42, pipelines/stable_diffusion_3/pipeline_stable_diffusion_3.py and flux/pipeline_flux.py,
`vae_scale_factor`."""


def dit(cfg: Config) -> ModelSpec:
    """DiT (Peebles and Xie 2023, arXiv:2212.09748); each layer embeds the step and the class itself, as diffusers has
    it: the original embeds them once for all layers, and counts fewer parameters."""
    cfg.only("norm_type", "ada_norm_zero", why="no other runs")
    cfg.only("norm_elementwise_affine", False, why="norms with weights are not described")
    act = cfg.choice("activation_fn", among=ACTIVATIONS, absent="gelu_tanh")
    heads, width = cfg.size("num_attention_heads", absent=16), cfg.size("attention_head_dim", absent=72)
    side, patch = cfg.size("sample_size", absent=32), cfg.size("patch_size", absent=2)
    channels = cfg.size("in_channels", absent=4)
    given = cfg.size("out_channels", absent=channels, null=channels)
    classes = cfg.size("num_embeds_ada_norm", absent=1000) + 1
    cfg.notes.append("counted with a step and a class embedded in every layer, as diffusers does")
    _of_pixels(cfg, side, PIXELS)
    own = Conditioning(n_classes=classes)
    layer = Denoising(n_heads=heads, bias=cfg.flag("attention_bias", absent=True), activation=act, conditioning=own)
    return ModelSpec(
        d_model=heads * width,
        embedding=Latents(height=side, width=side, pixels=PIXELS, patch=patch, channels=channels, placed=True),
        layers=(LayerGroup(count=cfg.size("num_layers", absent=28, limit=10**5), denoising=layer),),
        final_norm=None,
        denoised=Denoised(d_out=patch**2 * given, remakes_conditioning=True),
        head=None,
    )


def sd3(cfg: Config) -> ModelSpec:
    """Stable Diffusion 3 (Esser et al. 2024, arXiv:2403.03206), and 3.5, whose first layers attend twice."""
    heads, width = cfg.size("num_attention_heads", absent=18), cfg.size("attention_head_dim", absent=64)
    n_layers, d_model = cfg.size("num_layers", absent=18, limit=10**5), heads * width
    if (projected := cfg.size("caption_projection_dim", absent=1152)) != d_model:
        raise Refused("caption_projection_dim", f"num_attention_heads * attention_head_dim = {d_model}", projected)
    side, patch = cfg.size("sample_size", absent=128), cfg.size("patch_size", absent=2)
    n_side, channels = cfg.size("pos_embed_max_size", absent=96), cfg.size("in_channels", absent=16)
    if side // patch > n_side:
        raise Refused("pos_embed_max_size", f"at least sample_size / patch_size = {side // patch}", n_side)
    twice = cfg.numbers("dual_attention_layers", absent=())
    if tuple(twice) != tuple(range(len(twice))) or len(twice) >= n_layers:
        raise Refused("dual_attention_layers", "the first layers in order, not the last among them", list(twice)[:20])
    normed = cfg.choice(
        "qk_norm", among={"rms_norm": Norm(eps=1e-6, widened=False, as_weight=True)}, absent=None, null=None
    )
    given = cfg.size("out_channels", absent=16, null=channels)
    layer = Denoising(n_heads=heads, streams="beside", qk_norm=normed)
    n_plain = n_layers - len(twice) - 1
    kinds = (
        ("dual", len(twice), layer.model_copy(update={"dual": True})),
        ("beside", n_plain, layer),
        ("last", 1, layer.model_copy(update={"streams": "text_ends"})),
    )
    _of_pixels(cfg, side, PIXELS)
    front = Latents(
        height=side,
        width=side,
        pixels=PIXELS,
        patch=patch,
        channels=channels,
        d_text=cfg.size("joint_attention_dim", absent=4096),
        n_text=_text(cfg, SD3_TEXT),
        placed=True,
        n_side=n_side,
        conditioning=Conditioning(d_pooled=cfg.size("pooled_projection_dim", absent=2048)),
    )
    return _of_text(d_model, front, kinds, patch**2 * given)


def flux(cfg: Config) -> ModelSpec:
    """FLUX.1 (Black Forest Labs 2024): layers of two streams, then of one; latents come packed, 2 x 2 in one vector."""
    heads, width = cfg.size("num_attention_heads", absent=24), cfg.size("attention_head_dim", absent=128)
    axes = cfg.numbers("axes_dims_rope", length=3, absent=(16, 56, 56))
    if sum(axes) != width or any(each % 2 for each in axes):
        raise Refused("axes_dims_rope", f"even widths that sum up to attention_head_dim = {width}", list(axes))
    cfg.only("patch_size", 1, why="the latents come packed")
    channels = cfg.size("in_channels", absent=64)
    given = cfg.size("out_channels", absent=channels, null=channels)
    front = Latents(
        height=FLUX_SIDE,
        width=FLUX_SIDE,
        pixels=PACKED_PIXELS,
        packed=True,
        channels=channels,
        d_text=cfg.size("joint_attention_dim", absent=4096),
        n_text=_text(cfg, FLUX_TEXT),
        conditioning=Conditioning(
            guidance=cfg.flag("guidance_embeds", absent=False), d_pooled=cfg.size("pooled_projection_dim", absent=768)
        ),
    )
    _of_pixels(cfg, FLUX_SIDE, PACKED_PIXELS)
    layer = Denoising(n_heads=heads, streams="beside", qk_norm=Norm(eps=1e-6, wide=True), axes=axes)
    kinds = (
        ("beside", cfg.count("num_layers", absent=19), layer),
        (
            "joined",
            cfg.size("num_single_layers", absent=38, limit=10**5),
            layer.model_copy(update={"streams": "joined"}),
        ),
    )
    return _of_text(heads * width, front, kinds, given)


def _text(cfg: Config, n: int) -> int:
    cfg.notes.append(f"counted with {n} vectors of text")
    return n


def _of_pixels(cfg: Config, side: int, pixels: int) -> None:
    cfg.notes.append(
        f"{pixels} x {pixels} pixels make one {'packed ' * (pixels == PACKED_PIXELS)}latent; unless --image says "
        f"another, the picture has {side * pixels} x {side * pixels} pixels"
    )


def _of_text(d_model: int, front: Latents, kinds: tuple[tuple[str, int, Denoising], ...], d_out: int) -> ModelSpec:
    return ModelSpec(
        d_model=d_model,
        embedding=front,
        layers=tuple(LayerGroup(name=name, count=n, denoising=layer) for name, n, layer in kinds if n),
        final_norm=None,
        denoised=Denoised(d_out=d_out),
        head=None,
    )


DENOISERS = {"DiTTransformer2DModel": dit, "SD3Transformer2DModel": sd3, "FluxTransformer2DModel": flux}
"""`_class_name` of diffusers -> what reads its config."""
