"""Pixtral's vision model alone (Mistral AI 2024, arXiv:2410.07073), and as the tower of what reads pictures with it."""

from __future__ import annotations

from calc.architectures.clip import alone
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.vision import plane_rope, square_patches
from calc.spec import Attention, LayerGroup, Mlp, ModelSpec, Norm, Plane, Projector, Tower
from calc.spec.fields import MAX_LAYERS, MAX_SIZE

NORM = Norm(eps=1e-5)
"""Its epsilon is given by no key."""
SIZES = {
    "hidden_size": (1024, MAX_SIZE),
    "intermediate_size": (4096, MAX_SIZE),
    "num_hidden_layers": (24, MAX_LAYERS),
    "num_attention_heads": (16, MAX_SIZE),
    "image_size": (1024, MAX_SIZE),
    "patch_size": (16, MAX_SIZE),
}
"""(default, limit). The defaults of transformers' PixtralVisionConfig are the sizes of Pixtral 12B, whose config names
the last two alone."""


def spec(cfg: Config) -> ModelSpec:
    """Each picture attends to itself alone, see `tower`."""
    cfg.architecture({"PixtralVisionModel": True}, usual="PixtralVisionModel")
    return alone(tower(cfg))


def tower(cfg: Config, *projectors: Projector) -> Tower:
    """A ViT with gated MLPs and rotary positions alone, without biases, and with no norm behind its layers.

    transformers lays the pictures of a batch one behind another and, without FlashAttention, multiplies all patches
    with all and hides those of other pictures.
    """
    size = {name: cfg.size(name, absent=default, limit=limit) for name, (default, limit) in SIZES.items()}
    d_model, n_heads = size["hidden_size"], size["num_attention_heads"]
    d_head = cfg.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    cfg.only("head_dim", None, d_head, why="heads of this family have no width of their own")
    layer = LayerGroup(
        count=size["num_hidden_layers"],
        mixer=Attention(n_heads=n_heads, causal=False, rope=plane_rope(cfg, Plane(staggered=True))),
        channel=Mlp(
            d_ff=size["intermediate_size"], gated=True, activation=activation(cfg, "hidden_act", absent="gelu")
        ),
        norm=NORM,
    )
    return Tower(
        name="vision",
        d_model=d_model,
        embedding=square_patches(cfg, size["image_size"], size["patch_size"], bias=False, norm=NORM),
        layers=(layer,),
        final_norm=None,
        projectors=projectors,
    )
