"""SAM 2 (Ravi et al. 2024, arXiv:2408.00714) on pictures: its encoder, a prompt and layers that make masks of both."""

from __future__ import annotations

from calc.architectures import vit
from calc.architectures.common import LAYER_NORM, activation
from calc.architectures.config import Config
from calc.architectures.sam2 import section, vision
from calc.errors import Refused
from calc.spec import MaskDecoder, ModelSpec, Patches

LEVELS = 3
"""Maps that the decoder reads: the picture's vectors, and two that are finer."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' configs of the parts; a video's memory (Sam2VideoModel) is not described."""
    cfg.architecture({"Sam2Model": True}, usual="Sam2Model")
    seen = section(cfg, "vision_config")
    seen.only("model_type", "sam2_vision_model", why="the encoder that is described")
    seen.only("num_feature_levels", LEVELS, why="as many as the decoder reads")
    encoder = vision(seen)
    assert encoder.pyramid is not None
    decoder = mask_decoder(cfg, encoder.pyramid.d_out, "fpn_hidden_size", maps=True)
    _refuse_other_sides(cfg, seen, encoder)
    cfg.notes.append("each picture has one prompt: a point, and no mask (n_points, given_mask of mask_decoder)")
    return encoder.model_copy(update={"mask_decoder": decoder})


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


def _refuse_other_sides(cfg: Config, seen: Config, encoder: ModelSpec) -> None:
    """Sizes of pictures and maps that other parts of the config say once more, and that must be the encoder's."""
    front = encoder.embedding
    assert isinstance(front, Patches)
    assert front.stride_height is not None
    strides = [getattr(group.merge, "stride", 1) for group in encoder.layers if group.merge is not None]
    if strides[:2] != [2, 2]:
        raise Refused(f"{seen.where}backbone_config.query_stride", "2 behind the first two stages", strides[:2])
    side = (front.height + 2 * front.padding - front.patch_height) // front.stride_height + 1
    usual = [[256, 256], [128, 128], [64, 64]]
    sizes = seen.raw.get("backbone_feature_sizes")
    sizes = usual if sizes is None else sizes
    expected = [[side // by] * 2 for by in (1, 2, 4)]
    if sizes != expected:
        raise Refused(
            f"{seen.where}backbone_feature_sizes", f"those of the encoder's maps, {expected}", str(sizes)[:60]
        )
    refuse_other_prompts(section(cfg, "prompt_encoder_config"), front, side // 4)


def refuse_other_prompts(prompt: Config, front: Patches, side: int) -> None:
    """Prompts of pictures of another size, or with another number of places than `side` along one."""
    if (pixels := prompt.size("image_size", absent=1024)) != front.height or pixels != front.width:
        expected = f"the side of the encoder's square pictures, {front.height} x {front.width}"
        raise Refused(f"{prompt.where}image_size", expected, pixels)
    patch = prompt.size("patch_size", absent=16)
    if pixels // patch != side:
        raise Refused(f"{prompt.where}patch_size", f"one that makes {side} of {pixels} pixels", patch)
