"""SAM 2 (Ravi et al. 2024, arXiv:2408.00714) on pictures: its encoder, a prompt and layers that make masks of both."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.architectures.mask_decoder import mask_decoder, refuse_other_prompts, section
from calc.architectures.sam2_encoder import vision
from calc.errors import Refused
from calc.spec import ModelSpec, Patches

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
