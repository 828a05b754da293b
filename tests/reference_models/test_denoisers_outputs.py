"""Twins of denoisers: outputs against diffusers' of the same weights, all drawn anew, where it is installed."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")
diffusers = pytest.importorskip("diffusers")

from reference_models import build  # noqa: E402
from tests.reference_models.test_denoisers import CASES, SIDE, small, theirs, told  # noqa: E402

NAMES = (
    (r"pos_embed\.proj|x_embedder", "embedding.patch"),
    (r"context_embedder", "embedding.text"),
    (r"transformer_blocks\.(\d+)\.norm1\.emb\.", r"layers.\1.conditioning."),
    (r"time_text_embed\.", "conditioning."),
    (r"timestep_embedder\.linear_", "time"),
    (r"guidance_embedder\.linear_", "guidance"),
    (r"text_embedder\.linear_", "pooled"),
    (r"class_embedder\.embedding_table", "class"),
    (r"^transformer_blocks\.", "layers."),
    (r"norm1_context\.linear", "text_modulation"),
    (r"^norm_out\.linear|^proj_out_1", "denoised.modulation"),
    (r"norm1?\.linear", "modulation"),
    (r"attn2\.", "dual_attention."),
    (r"attn1?\.", "attention."),
    (r"add_([qkv])_proj", r"text_\1_proj"),
    (r"to_([qkv])\b", r"\1_proj"),
    (r"to_out\.0", "o_proj"),
    (r"to_add_out", "text_o_proj"),
    (r"norm_added_([qk])", r"text_\1_norm"),
    (r"norm_([qk])\b", r"\1_norm"),
    (r"ff_context\.net\.", "text_mlp."),
    (r"ff\.net\.", "mlp."),
    (r"mlp\.0\.proj", "mlp.up_proj"),
    (r"mlp\.2", "mlp.down_proj"),
    (r"proj_mlp", "mlp.up_proj"),
    (r"(layers\.\d+)\.proj_out", r"\1.out_proj"),
    (r"^proj_out(_2)?\b", "denoised.out_proj"),
)
"""(pattern in diffusers' name, what stands there in ours), one after the other."""


def ours(name: str, double: int) -> str:
    """Our path of a parameter; layers of one stream stand behind `double` others."""
    name = re.sub(r"^single_transformer_blocks\.(\d+)", lambda found: f"layers.{int(found[1]) + double}", name)
    for pattern, path in NAMES:
        name = re.sub(pattern, path, name)
    return name


def patches(sample: Any, patch: int) -> Any:
    """A picture [batch, channels, height, width] as the twin gives it, patch by patch; packed ones are so already."""
    if sample.dim() == 3:
        return sample
    return sample.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)


@pytest.mark.parametrize(("name", "config"), CASES)
@torch.no_grad()
def test_same_as_diffusers(name: str, config: dict[str, Any]) -> None:
    """To what sines of steps and places in fp32 leave: those of ours are in fp64."""
    spec, packed = small(name, config), name.startswith("Flux")
    model, twin = getattr(diffusers, name)(**config).eval().double(), build(spec).eval().double()
    for parameter in model.parameters():
        parameter.normal_(std=0.3)
    drawn = {ours(path, config["num_layers"]): p for path, p in model.named_parameters()}
    twin.load_state_dict(drawn, strict=True)
    given = told(spec, 2, torch.float64) | {"steps": torch.tensor([0.25, 0.5], dtype=torch.float64)}
    expected = model(**theirs(name, given)).sample
    # FLUX.1 counts steps and guidance in thousandths.
    thousand = {key: 1000 * value for key, value in given.items() if packed and key in ("steps", "guidance")}
    found = twin(**given | thousand)
    assert found.std() > 0.1
    torch.testing.assert_close(found, patches(expected, SIDE // 4), rtol=1e-3, atol=1e-3)
