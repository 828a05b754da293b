"""Idefics3 (Laurençon et al. 2024, arXiv:2408.12637) and SmolVLM (Marafioti et al. 2025, arXiv:2504.05299): Llama with
a SigLIP tower, of whose patches blocks are laid side by side and pass one matrix."""

from __future__ import annotations

from calc.architectures import llama
from calc.architectures.config import Config
from calc.architectures.paligemma import siglip_tower
from calc.architectures.vision import multimodal, text_section, vision_section
from calc.errors import Refused
from calc.spec import Dense, ModelSpec, Projector


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Idefics3Config and SmolVLMConfig. A picture is one tile of image_size."""
    text = llama.spec(text_section(cfg, "llama"))
    vision = vision_section(cfg, f"{cfg.raw['model_type']}_vision")
    side = cfg.size("scale_factor", absent=2)
    patches = vision.size("image_size") // vision.size("patch_size")
    if patches % side:
        raise Refused(f"{cfg.where}scale_factor", f"a divisor of the {patches} patches of a side", side)
    projector = Projector(merge=side**2, merge_rows=side, layers=(Dense(name="linear", bias=False),))
    cfg.notes.append("--images counts tiles of image_size, into which larger pictures are cut")
    return multimodal(cfg, text, siglip_tower(vision, projector), tied=False)
