"""What autograd keeps of models that see: pictures inside a text, comparing towers, detectors; to the byte."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors  # noqa: E402
from calc.spec import ModelSpec, Projection  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from reference_models import Model  # noqa: E402
from reference_models.inputs import example  # noqa: E402
from reference_models.saved import saved_tensors as probed  # noqa: E402
from tests.architectures.cases_media import MEDIA  # noqa: E402
from tests.architectures.cases_vision import KIMI, SEEING  # noqa: E402
from tests.architectures.test_media import build as built  # noqa: E402
from tests.saved.test_twins import CONFIGS, MODES, Mode, check, measured, size, small, twin  # noqa: E402

TOWERS = {
    f"{name}-{i}": {"model_type": name, **config}
    for name, configs in (SEEING | {"kimi_k25": (KIMI,)}).items()
    for i, config in enumerate(configs)
    if not name.endswith("_text")
}
"""Configs of models with pictures inside, whose towers all differ."""


def holds(spec: ModelSpec, mode: Mode, images: int) -> None:
    """The total, with `images` pictures whose vectors take the places of the first tokens."""
    model = twin(spec, mode)
    inputs = example(model, mode.batch, 1, images=images)
    if spec.contrast is None:
        vectors = _vectors(model, inputs["images"])
        seq = vectors + 5
        places = torch.arange(mode.batch * seq).view(mode.batch, seq)
        inputs |= {"inputs": torch.zeros_like(places), "image_at": places < vectors}
    else:
        seq = 24
        inputs["inputs"] = torch.zeros(mode.batch, seq, dtype=torch.long)
    written = saved_tensors(spec, Load(batch=mode.batch, seq=seq, images=images), mode.settings())
    found = measured(model, mode, **inputs)
    assert found.total == sum(count * each.tensor.bytes for count, each in written.everything())


def _vectors(model: Model, pictures: Any) -> int:
    """How many vectors the vision tower gives of these pictures."""
    with torch.no_grad():
        seen = model._see(pictures, {})[0]
    return seen.shape[:-1].numel()


@pytest.mark.parametrize("name", ["clip", "siglip", "mistral3"])
@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("images", [1, 3])
def test_families(name: str, mode: Mode, images: int) -> None:
    holds(from_config({"model_type": name, **CONFIGS[name]}), mode, images)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "images"), [*((name, 2) for name in TOWERS), ("llava-0", 1)])
@pytest.mark.parametrize("mode", [MODES[0], MODES[2], MODES[4], MODES[7]], ids=str)
def test_every_tower_inside_a_plain_text(name: str, images: int, mode: Mode) -> None:
    """Its vectors are taken like other tokens: what the family's own text does with them is left out."""
    text = from_config({"model_type": "mistral3", **CONFIGS["mistral3"]})
    tower = from_config(TOWERS[name]).vision
    assert tower is not None
    spec = text.model_copy(update={"vision": tower.model_copy(update={"among_tokens": "tokens"})})
    holds(spec, mode, images)


def test_a_tower_that_sees_nothing_keeps_nothing() -> None:
    """Without pictures, the model keeps what its text alone does."""
    spec = from_config({"model_type": "clip", **CONFIGS["clip"]})
    mode = Mode(autocast=True)
    written = saved_tensors(spec, Load(batch=2, seq=24), mode.settings())
    assert not any(path.startswith("vision.") for path in written.layers)
    assert measured(twin(spec, mode), mode).total == sum(n * each.tensor.bytes for n, each in written.everything())


def test_full_checkpointing_with_pictures_keeps_the_inputs_of_both_kinds_of_layers() -> None:
    spec, mode = from_config({"model_type": "clip", **CONFIGS["clip"]}), Mode()
    written = saved_tensors(spec, Load(batch=2, seq=24, images=2), mode.settings())
    inputs = {path: each.count * each.input.bytes for path, each in written.layers.items()}
    model = twin(spec, mode)
    given = example(model, 2, 24, images=2)
    found = measured(model, mode, "full", images=given["images"])
    assert found.total == size(written.front) + sum(inputs.values()) + size(written.end) + size(written.loss)
    assert set(inputs) == {"vision.layers", "layers"}


def test_what_pictures_seen_whole_add_to_a_kernels_mask_is_refused() -> None:
    spec = from_config({"model_type": "gemma3", **CONFIGS["gemma3"]})
    load = Load(batch=2, seq=48, images=1)
    assert saved_tensors(spec, load, Mode().settings()).layers
    with pytest.raises(Refused, match="images"):
        saved_tensors(spec, load, Mode("sdpa").settings())


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(
    "change",
    [
        {"trained_from": 1},
        {"trained_from": 2, "stride_first": True},
        {"trained_from": -1},
        {"trained_from": -1, "bottleneck": False, "halve_first_stage": True, "axis_positions": 7},
    ],
    ids=str,
)
def test_residual_networks_frozen_in_part(change: dict[str, Any], mode: Mode) -> None:
    spec = small(from_config({"model_type": "detr", **CONFIGS["detr"]}))
    assert spec.encoder is not None
    front = spec.encoder.embedding.model_copy(update=change)
    encoder = spec.encoder.model_copy(update={"embedding": front})
    check(spec.model_copy(update={"encoder": encoder}), mode)


@pytest.mark.parametrize("how", [Settings("eager", "fp32", device="cpu"), Settings(autocast=True, device="cpu")])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("masked", [0.75, 0.35])
def test_masked_patches_keep_what_transformers_keeps(masked: float, whole: bool, how: Settings) -> None:
    config = MEDIA["vit_mae"][0] | {"mask_ratio": masked}
    name = "ViTMAEForPreTraining" if whole else "ViTMAEModel"
    model = built("vit_mae", name, config).train()
    # Nothing of the loss, which takes patches of pixels for targets.
    parts = (model.vit, model.decoder) if hasattr(model, "decoder") else (model, None)

    def forward_pass() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=how.autocast):
            seen = parts[0](torch.rand(3, 3, 32, 32))
            return seen[0] if parts[1] is None else parts[1](seen.last_hidden_state, seen.ids_restore).logits

    kept = probed(model, forward_pass).total
    spec = from_config({"model_type": "vit_mae", "architectures": [name], **config})
    written = saved_tensors(spec, Load(batch=3), how)
    assert kept == sum(n * each.tensor.bytes for n, each in written.everything()) - size(written.loss)


@pytest.mark.parametrize("name", ["bart", "whisper", "t5"])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_dense_layers_behind_an_encoder(name: str, mode: Mode) -> None:
    """A layer on every vector reads what the decoder reads too, and keeps it for both."""
    heads = (
        Projection(name="ctc", d_out=11),
        Projection(name="pooler", per="sequence", activation="tanh"),
        Projection(name="classes", d_out=3, per="sequence", pool="mean", reads=None),
    )
    spec = from_config({"model_type": name, **CONFIGS[name]})
    assert spec.encoder is not None
    check(spec.model_copy(update={"encoder": spec.encoder.model_copy(update={"heads": heads})}), mode)


@pytest.mark.parametrize("how", [Settings("eager", "fp32", device="cpu"), Settings(autocast=True, device="cpu")])
@pytest.mark.parametrize("change", [0, 1], ids=["whole", "filled up"])
@pytest.mark.parametrize("family", ["swin", "swinv2"])
def test_windows_keep_what_transformers_keeps(family: str, change: int, how: Settings) -> None:
    """Shifted ones too, and rows and columns that fill windows, patches and merged patches up."""
    config, names, variants = MEDIA[family]
    config = config | variants[1] if change else config
    model = built(family, names[0], config | {"drop_path_rate": 0.0}).train()
    front: Any = from_config({"model_type": family, **config}).embedding
    pixels = torch.rand(2, 3, front.height, front.width)

    def forward_pass() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=how.autocast):
            return model(pixels)

    spec = from_config({"model_type": family, "architectures": [names[0]], **config})
    written = saved_tensors(spec, Load(batch=2), how)
    assert probed(model, forward_pass).total == sum(n * each.tensor.bytes for n, each in written.everything())


@pytest.mark.parametrize("how", [Settings("eager", "fp32", device="cpu"), Settings(autocast=True, device="cpu")])
@pytest.mark.parametrize("change", [{}, *MEDIA["sam2"][2]])
@pytest.mark.parametrize(("batch", "with_mask"), [(1, False), (2, False), (2, True)])
def test_masks_keep_what_transformers_keeps(change: dict[str, Any], how: Settings, batch: int, with_mask: bool) -> None:
    """All behind the encoder, whose heads transformers lets meet with a gradient that nothing asks for."""
    config = MEDIA["sam2"][0] | change
    model = built("sam2", "Sam2Model", config).train()
    points, kinds = torch.rand(batch, 1, 3, 2), torch.ones(batch, 1, 3, dtype=torch.long)
    given: dict[str, Any] = {"input_masks": torch.rand(batch, 1, 16, 16)} if with_mask else {}

    def forward_pass() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=how.autocast):
            return model(torch.rand(batch, 3, 64, 64), points, kinds, **given)

    found = probed(model, forward_pass)
    spec = from_config({"model_type": "sam2", **config})
    assert spec.mask_decoder is not None
    own = spec.mask_decoder.model_copy(update={"n_points": 3, "given_mask": with_mask})
    written = saved_tensors(spec.model_copy(update={"mask_decoder": own}), Load(batch=batch), how)
    behind = [(n, each) for n, each in written.everything() if each.op.startswith("mask_decoder")]
    assert found.total - found.within("vision_encoder") == sum(n * each.tensor.bytes for n, each in behind)


@pytest.mark.parametrize("execution", ["eager", "sdpa"])
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("change", [{}, *MEDIA["sam"][2]])
@pytest.mark.parametrize("batch", [1, 2])
def test_segment_anything_keeps_what_transformers_keeps(
    change: dict[str, Any], autocast: bool, execution: Any, batch: int
) -> None:
    config = MEDIA["sam"][0] | change
    parsed = transformers.SamConfig(**config)
    model = transformers.SamModel._from_config(parsed, attn_implementation=execution).train()
    points, kinds = torch.rand(batch, 1, 3, 2), torch.ones(batch, 1, 3, dtype=torch.long)

    def forward_pass() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            return model(torch.rand(batch, 3, 56, 56), points, kinds)

    found = probed(model, forward_pass)
    spec = from_config({"model_type": "sam", **config})
    assert spec.mask_decoder is not None
    spec = spec.model_copy(update={"mask_decoder": spec.mask_decoder.model_copy(update={"n_points": 3})})
    how = Settings(execution, "bf16" if autocast else "fp32", autocast, device="cpu")
    written = saved_tensors(spec, Load(batch=batch), how).everything()
    assert found.total == sum(n * each.tensor.bytes for n, each in written)
