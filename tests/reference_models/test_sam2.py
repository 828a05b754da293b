"""SAM 2's image encoder against transformers', with the same weights, all drawn anew."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from reference_models import Model, build  # noqa: E402
from tests.architectures.cases_media import MEDIA  # noqa: E402
from tests.architectures.test_media import build as transformers_model  # noqa: E402

BASE, _, VARIANTS = MEDIA["sam2_hiera_det_model"]
CONFIGS = [BASE, *(BASE | variant for variant in VARIANTS)]


SEEING, _, OTHERS = MEDIA["sam2_vision_model"]


def pair(config: dict[str, Any]) -> tuple[Any, Model]:
    """Both in float64."""
    theirs = transformers_model("sam2_hiera_det_model", "Sam2HieraDetModel", config).double()
    ours = build(from_config({"model_type": "sam2_hiera_det_model", **config})).double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.3)
        assert copy(theirs, ours) == set(ours.parameters())
    return theirs, ours


def copy(theirs: Any, ours: Model) -> set[Any]:
    """Their blocks, the first half of some of which stands between two stages of ours; what was given."""
    met: set[Any] = set()

    def give(module: Any, tensor: Any, name: str = "weight") -> None:
        taken = module.get_parameter(name)
        taken.copy_(tensor.reshape(taken.shape))
        met.add(taken)

    for i, block in enumerate(theirs.blocks):
        layer, between = ours.layers[i], None if i not in ours.ahead else ours.merges[ours.ahead[i]]
        mixer = layer.attention if between is None else between
        norm = layer.attention_norm if between is None else between.norm
        pairs = [(mixer.qkv_proj, block.attn.qkv), (mixer.o_proj, block.attn.proj), (norm, block.layer_norm1)]
        pairs += [(layer.channel_norm, block.layer_norm2), (layer.mlp.up_proj, block.mlp.proj_in)]
        pairs += [(layer.mlp.down_proj, block.mlp.proj_out)] + ([] if between is None else [(between.proj, block.proj)])
        for mine, other in [*pairs, (ours.embedding.patch, theirs.patch_embed.projection)]:
            give(mine, other.weight)
            give(mine, other.bias, "bias")
    for mine, other in ((ours.embedding.position, theirs.pos_embed), (ours.embedding.window, theirs.pos_embed_window)):
        give(mine, other[0].flatten(1).T)
    return met


@pytest.mark.parametrize("config", CONFIGS)
@torch.no_grad()
def test_same_as_transformers(config: dict[str, Any]) -> None:
    theirs, ours = pair(config)
    pictures = torch.rand(2, config["num_channels"], *config["image_size"], dtype=torch.float64)
    expected = theirs(pictures).last_hidden_state
    for kernel in ("eager", "sdpa"):
        found = ours(pictures, kernel=kernel).last
        assert found.std() > 1e-3
        torch.testing.assert_close(found, expected.flatten(1, 2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("config", [SEEING, *(SEEING | other for other in OTHERS)])
@torch.no_grad()
def test_same_maps_as_transformers(config: dict[str, Any]) -> None:
    theirs = transformers_model("sam2_vision_model", "Sam2VisionModel", config).double()
    ours = build(from_config({"model_type": "sam2_vision_model", **config})).double().eval()
    for parameter in theirs.parameters():
        parameter.normal_(std=0.3)
    met = copy(theirs.backbone, ours)
    stages = len(theirs.neck.convs)
    for i in range(stages):
        for mine, other in zip(
            ours.pyramid.get_submodule(f"lateral{i}").parameters(),
            theirs.neck.convs[stages - 1 - i].parameters(),
            strict=True,
        ):
            mine.copy_(other)
            met.add(mine)
    assert met == set(ours.parameters())
    pictures = torch.rand(2, 3, *config["backbone_config"]["image_size"], dtype=torch.float64)
    expected, found = theirs(pictures), ours(pictures)
    torch.testing.assert_close(found.last, expected.last_hidden_state.flatten(1, 2), rtol=1e-5, atol=1e-5)
    for i, each in enumerate(expected.fpn_hidden_states):
        torch.testing.assert_close(found.heads[f"map{i}"], each.flatten(2).mT, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_another_size_of_picture() -> None:
    theirs, ours = pair(BASE)
    pictures = torch.rand(2, 3, 96, 160, dtype=torch.float64)
    torch.testing.assert_close(
        ours(pictures).last, theirs(pictures).last_hidden_state.flatten(1, 2), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("image", "expected"), [((72, 64), "whole windows of 4 patches"), ((48, 64), "whole squares of 2 x 2")]
)
def test_pictures_that_no_stage_divides(image: tuple[int, int], expected: str) -> None:
    """transformers adds positions of another shape, or pools rows away that the residual keeps."""
    spec = from_config({"model_type": "sam2_hiera_det_model", **BASE})
    with pytest.raises(Refused, match=f"image: expected .*{expected}"):
        forward(spec, Load(image=image))
