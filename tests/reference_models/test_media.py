"""Twins of the models of pictures, sound and tables: counts against `calc`, and what is theirs alone."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import calc  # noqa: E402
from calc.architectures import from_config  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.parameters import parameter_shapes  # noqa: E402
from calc.spec import Frames, ModelSpec, Patches  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from harness.counter import count  # noqa: E402
from harness.oracles import MODES  # noqa: E402
from reference_models import build  # noqa: E402
from reference_models.blocks.distances import shifted  # noqa: E402
from reference_models.blocks.patches import PatchEmbedding  # noqa: E402
from reference_models.inputs import example  # noqa: E402
from reference_models.step import Step  # noqa: E402
from tests.architectures.cases_media import MEDIA, media_cases  # noqa: E402
from tests.architectures.test_media import BATCH, SEQ  # noqa: E402
from tests.reference_models.counted import countable  # noqa: E402

SAMPLES = 400
PRESETS = ("conformer-s", "conformer-aed", "ft-transformer", "ast-base", "speech-transformer-m")


def check(spec: ModelSpec, checkpointing: str = "none") -> None:
    """Parameters by path, FLOPs of one pass and of forward with backward over everything that comes out."""
    model = countable(spec)
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == parameter_shapes(spec)
    load, arguments = loaded(spec, model)
    assert count(lambda: model(**arguments)) == forward(spec, load).total

    def step() -> None:
        results = model(**arguments, checkpointing=checkpointing).results
        torch.stack([each.float().sum() for each in results]).sum().backward()

    assert count(step) == training(spec, load, checkpointing).total


def loaded(spec: ModelSpec, model: Any) -> tuple[Load, dict[str, Any]]:
    """The load of BATCH inputs, and the arguments that make the twin run them."""
    front = (spec.encoder or spec).embedding
    # A front before which tokens are read too may have a place for each of its frames (Whisper).
    frames = front.n_frames if isinstance(front, Frames) and spec.reads_tokens else None
    source = (frames or SAMPLES) if isinstance(front, Frames) else None
    images = 0 if spec.vision is None else 3
    seq = SEQ if spec.reads_tokens or source is None else SAMPLES
    return Load(batch=BATCH, seq=SEQ, source=source, images=images), example(
        model, BATCH, seq, source=source, images=images
    )


@pytest.mark.slow
@pytest.mark.parametrize(("model_type", "name", "config"), media_cases())
def test_counts_of_every_class(model_type: str, name: str, config: dict[str, Any]) -> None:
    check(from_config({"model_type": model_type, "architectures": [name], **config}))


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", MODES[1:])
@pytest.mark.parametrize(
    "model_type", ["vit", "clip", "siglip", "whisper", "wav2vec2-conformer", "detr", "vit_mae", "sam", "sam2"]
)
def test_counts_with_checkpointing(model_type: str, checkpointing: str) -> None:
    check(from_config({"model_type": model_type, **MEDIA[model_type][0]}), checkpointing)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_counts_of_presets(name: str) -> None:
    """Whole, since groups of layers that stand one after another are few."""
    check(calc.load_model(name))


@pytest.mark.parametrize("model_type", ["whisper", "speech_to_text"])
def test_decoding_is_counted(model_type: str) -> None:
    """The sound is read once; then one token at a time reads its keys and values."""
    spec = from_config({"model_type": model_type, **MEDIA[model_type][0]})
    model = countable(spec)
    cache = model.new_cache()
    with torch.no_grad():
        model(**example(model, BATCH, SEQ, source=50), cache=cache)
        one = example(model, BATCH, 1, decode=True)
        load = Load(batch=BATCH, seq=1, context=SEQ, decode=True, source=50)
        assert count(lambda: model(**one, cache=cache)) == forward(spec, load).total


def test_scores_of_distances_stand_at_their_keys() -> None:
    """Row i, column j of the result is the score of distance i - j; distances run from 3 down to -3."""
    scores = torch.arange(3, -4, -1).expand(1, 4, 7)
    places = torch.arange(4)
    assert torch.equal(shifted(scores)[0], places[:, None] - places)


def test_positions_follow_the_picture() -> None:
    """At its own size as they are; at twice the size every patch lies between its old neighbours; the class stays."""
    torch.manual_seed(0)
    spec = Patches(height=8, width=8, patch_height=2, patch_width=2, n_special=1, n_positions=17)
    front = PatchEmbedding(spec, None, 6)
    step = Step(torch.arange(1)[None])
    assert front(torch.zeros(2, 3, 8, 8), step).shape == (2, 17, 6)
    assert torch.equal(front.positions(4, 4), front.position.weight)
    larger = front.positions(8, 4)
    assert larger.shape == (33, 6)
    assert torch.equal(larger[0], front.position.weight[0])
    assert front(torch.zeros(2, 3, 16, 8), step).shape == (2, 33, 6)


def test_masked_steps_are_replaced() -> None:
    """wav2vec 2.0's learned vector stands where the mask says, whatever the sound was."""
    torch.manual_seed(0)
    spec = from_config({"model_type": "wav2vec2", **MEDIA["wav2vec2"][0]})
    front = build(spec).eval().embedding
    sound = torch.randn(1, 200, 1)
    steps = front(sound, Step(torch.arange(1)[None])).shape[1]
    everything = torch.ones(1, steps, dtype=torch.bool)
    a, b = (front(x, Step(torch.arange(1)[None], masked=everything)) for x in (sound, torch.randn(1, 200, 1)))
    torch.testing.assert_close(a, b)


def test_targets_are_entries_of_the_codebooks() -> None:
    torch.manual_seed(0)
    spec = from_config({"model_type": "wav2vec2", **MEDIA["wav2vec2"][0]})
    model = build(spec).double()
    out = model(torch.randn(2, 200, 1).double())
    (targets,) = out.step.targets
    quantizer = model.embedding.quantizer
    entries = quantizer.codevectors.unflatten(0, (2, -1))
    every = torch.stack([quantizer.project(torch.cat([a, b])) for a in entries[0] for b in entries[1]])
    assert torch.cdist(targets.flatten(0, 1), every).min(1).values.max() < 1e-5
    targets.sum().backward()
    assert quantizer.scores.weight.grad.abs().sum() > 0
