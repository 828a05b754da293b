"""What Segment Anything and SAM 2 read alike: the encoder of a prompt and the layers that make masks."""

from __future__ import annotations

from calc.architectures import vit
from calc.architectures.common import LAYER_NORM, activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import MaskDecoder, Patches


def section(cfg: Config, name: str) -> Config:
    """A nested object, which where it is absent is an empty one."""
    found = cfg.section(name, absent=None, null=None)
    return found or Config({}, f"{cfg.where}{name}.", family=f"{cfg.family}.{name}")


def mask_decoder(cfg: Config, width: int, of: str, *, maps: bool) -> MaskDecoder:
    """What reads vectors of that width, which the encoder's config calls `of`, and a prompt.

    maps: SAM 2's, whose layers have as many dense layers as there are layers, but two at least: its class asks for them
    under that name.
    """
    prompt, decoder = section(cfg, "prompt_encoder_config"), section(cfg, "mask_decoder_config")
    for part in (prompt, decoder):
        if (found := part.size("hidden_size", absent=256)) != width:
            raise Refused(f"{part.where}hidden_size", f"{of} = {width}", found)
    if not maps:
        decoder.only("attention_downsample_rate", 2, why="the class reads it behind its layers alone")
    n_heads, narrowing = (
        decoder.size("num_attention_heads", absent=8),
        decoder.size("attention_downsample_rate", absent=2),
    )
    decoder.multiple("hidden_size", width, "num_attention_heads * attention_downsample_rate", n_heads * narrowing)
    decoder.multiple("hidden_size", width, "what two transposed convolutions divide it by", 8)
    d_mask = prompt.size("mask_input_channels", absent=16, limit=2**16)
    prompt.multiple("mask_input_channels", d_mask, "what its first convolution divides it by", 4)
    n_layers = decoder.size("num_hidden_layers", absent=2, limit=64)
    return MaskDecoder(
        n_kinds=prompt.size("num_point_embeddings", absent=4, limit=2**16),
        d_mask=d_mask,
        mask_activation=activation(prompt, "hidden_act", absent="gelu"),
        mask_norm=vit.layer_norm(prompt, 1e-6),
        n_layers=n_layers,
        n_heads=n_heads,
        narrowing=narrowing,
        d_ff=decoder.size("mlp_dim", absent=2048),
        n_dense=max(2, n_layers) if maps else 2,
        activation="relu" if maps else activation(decoder, "hidden_act", absent="relu"),
        norm=LAYER_NORM if maps else vit.layer_norm(decoder, 1e-6),
        n_masks=decoder.size("num_multimask_outputs", absent=3, limit=63) + 1,
        iou_depth=max(2, decoder.size("iou_head_depth", absent=3, limit=64)),
        d_iou=decoder.size("iou_head_hidden_dim", absent=256, limit=2**20),
        maps=maps,
    )


def refuse_other_prompts(prompt: Config, front: Patches, side: int) -> None:
    """Prompts of pictures of another size, or with another number of places than `side` along one."""
    if (pixels := prompt.size("image_size", absent=1024)) != front.height or pixels != front.width:
        expected = f"the side of the encoder's square pictures, {front.height} x {front.width}"
        raise Refused(f"{prompt.where}image_size", expected, pixels)
    patch = prompt.size("patch_size", absent=16)
    if pixels // patch != side:
        raise Refused(f"{prompt.where}patch_size", f"one that makes {side} of {pixels} pixels", patch)
