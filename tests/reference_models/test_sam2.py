"""Segment Anything, SAM 2 and its image encoder against transformers', with the same weights, all drawn anew."""

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
from reference_models.blocks.prompt import Prompt  # noqa: E402
from tests.architectures import renaming_media, renaming_text  # noqa: E402
from tests.architectures.cases_media import MEDIA  # noqa: E402
from tests.architectures.test_media import build as transformers_model  # noqa: E402

BASE, _, VARIANTS = MEDIA["sam2_hiera_det_model"]
CONFIGS = [BASE, *(BASE | variant for variant in VARIANTS)]


SEEING, _, OTHERS = MEDIA["sam2_vision_model"]
SEGMENTING = MEDIA["sam2"][0]


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


def copied_maps(theirs: Any, ours: Model) -> set[Any]:
    """The matrices that make maps, of which ours are in the order of stages."""
    met: set[Any] = set()
    for i, conv in enumerate(reversed(theirs.neck.convs)):
        pairs = zip(ours.pyramid.get_submodule(f"lateral{i}").parameters(), conv.parameters(), strict=True)
        for mine, other in pairs:
            mine.copy_(other)
            met.add(mine)
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
    assert met | copied_maps(theirs, ours) == set(ours.parameters())
    pictures = torch.rand(2, 3, *config["backbone_config"]["image_size"], dtype=torch.float64)
    expected, found = theirs(pictures), ours(pictures)
    torch.testing.assert_close(found.last, expected.last_hidden_state.flatten(1, 2), rtol=1e-5, atol=1e-5)
    for i, each in enumerate(expected.fpn_hidden_states):
        torch.testing.assert_close(found.heads[f"map{i}"], each.flatten(2).mT, rtol=1e-5, atol=1e-5)


def copied(model_type: str, config: dict[str, Any], **decoder: Any) -> tuple[Any, Model]:
    """transformers' whole model and ours with the same weights, all drawn anew, both in float64. decoder: what our mask
    decoder is described with beside."""
    (name, *_), rules = MEDIA[model_type][1], renaming_media.RULES[model_type]
    theirs = transformers_model(model_type, name, config).double()
    spec = from_config({"model_type": model_type, **config})
    assert spec.mask_decoder is not None
    spec = spec.model_copy(update={"mask_decoder": spec.mask_decoder.model_copy(update=decoder)})
    ours = build(spec).double().eval()
    given: dict[str, list[Any]] = {}
    with torch.no_grad():
        for path, parameter in theirs.named_parameters():
            parameter.normal_(std=0.3)
            folded, *_ = renaming_text.rename(path, rules) or ("",)
            given.setdefault(folded, []).append((path, parameter))
        met: set[Any] = set()
        if model_type == "sam2":
            met = copy(theirs.vision_encoder.backbone, ours) | copied_maps(theirs.vision_encoder, ours)
            ours.mask_decoder.directions.copy_(theirs.shared_image_embedding.positional_embedding)
            theirs.prompt_encoder.shared_embedding.positional_embedding.copy_(ours.mask_decoder.directions)
        for path, parameter in ours.named_parameters():
            if parameter in met:
                continue
            # Dense layers one behind another have one name there: the first, those between by number, the last.
            each = sorted(given[renaming_media.fold(path, model_type)], key=_depth)
            number = int(path.split(".")[-2]) if len(each) > 1 else 0
            parameter.copy_(each[number][1].reshape(parameter.shape))
    return theirs, ours


def _depth(named: tuple[str, Any]) -> tuple[int, str]:
    first, last = "proj_in" in named[0] or "lin1" in named[0], "proj_out" in named[0] or "lin2" in named[0]
    return (0 if first else 2 if last else 1), named[0]


def each_config(model_type: str) -> list[tuple[str, dict[str, Any]]]:
    base, _, changes = MEDIA[model_type]
    return [(model_type, base | change) for change in ({}, *changes)]


KINDS = [[1, 0, -1], [2, 3, -10]]


@pytest.mark.parametrize(("model_type", "config"), [*each_config("sam2"), *each_config("sam")])
@pytest.mark.parametrize("with_mask", [False, True])
@torch.no_grad()
def test_same_masks_as_transformers(model_type: str, config: dict[str, Any], with_mask: bool) -> None:
    """Points of every kind in two pictures; all masks but the first, which is for prompts that leave nothing open."""
    theirs, ours = copied(model_type, config, n_points=3, given_mask=with_mask)
    side = config["prompt_encoder_config"]["image_size"]
    places = 4 * side // config["prompt_encoder_config"]["patch_size"]
    pictures, points = (torch.rand(2, 3, n, m, dtype=torch.float64) for n, m in ((side, side), (1, 2)))
    points = side * points[:, :, 0]
    mask = torch.rand(2, 1, places, places, dtype=torch.float64) if with_mask else None
    kinds = torch.tensor(KINDS)
    expected = theirs(pictures, points[:, None], kinds[:, None], input_masks=mask)
    for kernel in ("eager", "sdpa"):
        found = ours(pictures, prompt=Prompt(points, kinds, mask), kernel=kernel).heads
        assert found["masks"].std() > 1e-3
        assert found["iou"].std() > 1e-3
        torch.testing.assert_close(found["masks"][:, 1:], expected.pred_masks[:, 0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(found["iou"][:, 1:], expected.iou_scores[:, 0], rtol=1e-5, atol=1e-5)
        if model_type == "sam2":
            torch.testing.assert_close(found["object"], expected.object_score_logits[:, 0], rtol=1e-5, atol=1e-5)


def test_a_mask_goes_with_a_model_that_reads_one() -> None:
    ours = build(from_config({"model_type": "sam2", **SEGMENTING}))
    prompt = Prompt(torch.zeros(1, 1, 2), torch.ones(1, 1, dtype=torch.long), torch.zeros(1, 1, 16, 16))
    with pytest.raises(ValueError, match="mask: expected none"):
        ours(torch.zeros(1, 3, 64, 64), prompt=prompt)


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
