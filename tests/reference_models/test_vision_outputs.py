"""Vision towers of language models: what they give, against transformers' with the same weights, all drawn anew."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.spec import ModelSpec  # noqa: E402
from reference_models import build  # noqa: E402
from reference_models.step import Step  # noqa: E402
from tests.architectures.cases_recurrent import RECURRENT  # noqa: E402
from tests.architectures.cases_vision import KIMI, SEEING, inside  # noqa: E402
from tests.architectures.renaming import rename  # noqa: E402
from tests.architectures.renaming_vision import TOWER  # noqa: E402
from tests.architectures.test_vision import TILED, cut  # noqa: E402
from tests.architectures.test_vision import build as transformers_model  # noqa: E402

IMAGES = 2
TOWERS: list[tuple[str, dict[str, Any]]] = [
    *((name, config) for name, configs in SEEING.items() for config in configs if "text_config" in config),
    ("kimi_k25", KIMI),
    ("kimi_k25", inside("vision_config", KIMI, merge_kernel_size=[3, 2], hidden_act="gelu")),
    ("qwen3_5", RECURRENT["qwen3_5"][0]),
    ("qwen3_5_moe", RECURRENT["qwen3_5_moe"][0]),
    ("qwen4_exp", RECURRENT["qwen4_exp"][0]),
]


def copy_tower(theirs: Any, ours: Any, model_type: str) -> None:
    """Random weights for the tower and its projectors, the same in both; other shapes of the same tensor laid out."""
    mine = {path: parameter for path, parameter in ours.named_parameters() if path.startswith("vision.")}
    with torch.no_grad():
        for name, tensor in theirs.named_parameters():
            if TOWER.fullmatch(name):
                tensor.normal_(std=0.3)
                (path,) = rename(name, model_type)
                turned = tensor.T if name.endswith("mm_input_projection_weight") else tensor
                parameter = mine.pop(path)
                if name.endswith("downsample.weight"):
                    turned = tensor.permute(0, 2, 3, 1)
                if model_type == "lfm2_vl" and name.endswith("patch_embedding.weight"):
                    # Theirs lays a patch pixel by pixel.
                    turned = tensor.unflatten(1, (-1, parameter.shape[1])).transpose(1, 2)
                if name.endswith("merging_layer.weight"):
                    # Theirs lays the patches side by side value by value.
                    turned = turned.unflatten(1, (len(turned), -1)).transpose(1, 2)
                parameter.copy_(turned.reshape(parameter.shape))
        assert not mine
        copy_bounds(theirs, ours, model_type)
        held = dict(ours.named_buffers())
        for own, other in (("mean", "std_bias"), ("factor", "std_scale")):
            for buffer in (held[path] for path in held if path.endswith(f"projector.{own}")):
                getattr(theirs.model.vision_tower, other).copy_(buffer.normal_())


def copy_bounds(theirs: Any, ours: Any, model_type: str) -> None:
    """Bounds of the tower's dense layers where it has any (Gemma 4), near enough to clamp many values."""
    for name, module in theirs.named_modules():
        if hasattr(module, "input_min"):
            bounds = [(module.input_min, module.input_max), (module.output_min, module.output_max)]
            for low, high in bounds:
                low.fill_(-0.9)
                high.fill_(1.1)
            (path,) = rename(f"{name}.linear.weight", model_type)
            ours.get_submodule(path.removesuffix(".weight")).bounds.copy_(torch.tensor(bounds))


def read_by(model_type: str, spec: ModelSpec, pixels: Any) -> tuple[Any, ...]:
    """Pictures [batch, channels, height, width] as `get_image_features` of the family takes them.

    Qwen's are patches in the order of the blocks that are merged, each in all of its frames; Kimi's and Gemma 4's are
    patches row by row, the latter with column and row of each.
    """
    tower: Any = spec.vision
    front = tower.embedding
    high, wide = front.patch_height, front.patch_width
    patches = pixels.unfold(2, high, high).unfold(3, wide, wide).permute(0, 2, 3, 1, 4, 5)
    rows, columns = patches.shape[1:3]
    grid = torch.tensor([[1, rows, columns]] * len(pixels))
    if model_type == "lfm2_vl":
        return cut(pixels, high)
    if model_type.startswith(("qwen", "glm")):
        side = tower.projectors[0].merge_rows
        blocks = patches.unflatten(2, (-1, side)).unflatten(1, (-1, side)).transpose(2, 3)
        framed = blocks.flatten(0, 4)[:, :, None].expand(-1, -1, front.frames, -1, -1)
        return framed.flatten(1), grid
    if model_type == "kimi_k25":
        return patches.flatten(0, 2), grid
    if model_type == "gemma4":
        places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).flip(-1)
        return patches.flatten(1, 2).flatten(2), places.expand(len(pixels), -1, -1)
    if model_type in ("mistral3", "mistral_large4"):
        return pixels, torch.tensor([pixels.shape[2:]] * len(pixels))
    if model_type in ("idefics3", "smolvlm"):
        return (pixels[None],)
    if model_type in TILED:
        return pixels[None], torch.tensor([[high * rows, (len(pixels) - 1) * wide * columns]])
    return (pixels,)


def seen(model: Any, given: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """transformers' vectors for the language model, and those for its single layers."""
    found = model.get_image_features(*given)
    if model.config.model_type == "llama4":
        return model.multi_modal_projector(found.last_hidden_state), []
    if model.config.model_type in TILED:
        return without_row_ends(joined(found.pooler_output), model), []
    return joined(found.pooler_output), [joined(each) for each in found.get("deepstack_features") or []]


def without_row_ends(vectors: Any, model: Any) -> Any:
    """Vectors of a whole picture and of its one tile, without the learned one behind each row of the latter."""
    vision = model.config.vision_config
    side = vision.image_size // vision.patch_size
    whole, tile = vectors.split([side * side, side * (side + 1)])
    rows = tile.unflatten(0, (side, side + 1))
    assert (rows[:, -1] == model.model.image_newline).all()
    return torch.cat([whole, rows[:, :-1].flatten(0, 1)])


def joined(vectors: Any) -> Any:
    """What some families give apart for each picture, as one tensor."""
    return vectors if torch.is_tensor(vectors) else torch.cat(list(vectors))


def compare(model_type: str, config: dict[str, Any], pixels: tuple[int, int] | None = None) -> None:
    """Both towers over the same pictures, of the tower's own size or another."""
    torch.manual_seed(0)
    theirs = transformers_model(model_type, config).double()
    spec = from_config({"model_type": model_type, **config})
    ours = build(spec).double().eval()
    copy_tower(theirs, ours, model_type)
    tower: Any = spec.vision
    front = tower.embedding
    pictures = torch.rand(IMAGES, front.channels, *(pixels or (front.height, front.width)), dtype=torch.float64)
    with torch.no_grad():
        expected, expected_deep = seen(theirs, read_by(model_type, spec, pictures))
        _, found, deep = ours.vision(pictures, Step(torch.arange(1)[None]))
    assert found.std() > 1e-3
    for mine, other in zip([found, *deep], [expected, *expected_deep], strict=True):
        torch.testing.assert_close(mine.flatten(0, 1), other.reshape(-1, mine.shape[-1]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("model_type", "config"), TOWERS)
def test_same_as_transformers(model_type: str, config: dict[str, Any]) -> None:
    compare(model_type, config)


@pytest.mark.parametrize("pixels", [(16, 48), (32, 16)])
@pytest.mark.parametrize(
    ("model_type", "config"),
    [
        (name, SEEING[name][0])
        for name in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "gemma4", "mistral3", "glm4v", "lfm2_vl", "step3p7")
    ]
    + [("kimi_k25", KIMI)],
)
def test_another_size_of_picture(model_type: str, config: dict[str, Any], pixels: tuple[int, int]) -> None:
    """Towers that read pictures of any shape: learned positions are carried over as each family does it."""
    compare(model_type, config, pixels)


def test_the_language_model_reads_what_is_seen() -> None:
    """Llama 4 whole, with dense layers: the logits of text around a picture."""
    config = inside("text_config", SEEING["llama4"][0], moe_layers=[])
    theirs = transformers_model("llama4", config).double()
    ours = build(from_config({"model_type": "llama4", **config})).double().eval()
    copy_tower(theirs, ours, "llama4")
    mine = dict(ours.named_parameters())
    tokens, image_at = torch.randint(0, 96, (1, 30)), torch.zeros(1, 30, dtype=torch.bool)
    image_at[0, 5:21] = True
    theirs.config.image_token_id = 96
    with torch.no_grad():
        for name, tensor in theirs.language_model.named_parameters():
            mine[rename(f"language_model.{name}", "llama4")[0]].copy_(tensor.normal_(std=0.2))
        pictures = torch.rand(1, 3, 32, 32, dtype=torch.float64)
        expected = theirs(input_ids=tokens.masked_fill(image_at, 96), pixel_values=pictures).logits
        found = ours(tokens, images=pictures, image_at=image_at).logits
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
