"""`verify` over published configs: every one, cut to few layers, against our model; some whole against transformers."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from calc.architectures import from_config
from calc.quantities.parameters import parameter_shapes
from calc.spec import ModelSpec
from harness import oracles, transformers_oracle
from harness.verify import picture_of, predictions
from tests import reference
from tests.reference_models.test_counts import shallow

pytestmark = pytest.mark.slow

NAMES = [record["name"] for record in reference.models()]
BATCH, SEQ = 2, 9
# One of every kind of input, and of every correction of the oracle that a small model needs.
WHOLE = [
    *("clip-vit-large-patch14", "distilbert-base-uncased", "falcon-7b", "gpt2", "mamba2-130m", "switch-base-8"),
    *("t5-small", "deit-small-patch16-224", "wav2vec2-base", "whisper-base"),
]


def cut(spec: ModelSpec) -> ModelSpec:
    """Two layers of each kind, in the towers too, unless something reads what certain layers of theirs give."""
    towers = {
        tower.name: tower.model_copy(
            update={"layers": tuple(group.model_copy(update={"count": 2}) for group in tower.layers)}
        )
        for tower in spec.towers
        if tower.schedule is None and not any(each.depths for each in tower.projectors)
    }
    return shallow(spec).model_copy(update=towers)


@pytest.mark.parametrize("name", NAMES)
def test_against_our_model(name: str) -> None:
    spec = cut(from_config(reference.config(name), name))
    counted = oracles.reference(spec, BATCH, getattr(spec.embedding, "n_frames", None) or SEQ)
    predicted = predictions(spec, BATCH, SEQ, int(spec.vision is not None))
    assert counted.quantities == {quantity: predicted[quantity] for quantity in counted.quantities}
    assert counted.shapes == parameter_shapes(spec)


@pytest.mark.parametrize("name", [name for name in WHOLE if name in NAMES])
def test_against_transformers(name: str) -> None:
    pytest.importorskip("transformers")
    spec = from_config(reference.config(name), name)
    length = getattr(spec.embedding, "n_frames", None) or SEQ
    counted = transformers_oracle.transformers(reference.config(name), BATCH, length, picture_of(spec))
    predicted = predictions(spec, BATCH, SEQ, int(spec.contrast is not None))
    assert counted.quantities == {quantity: predicted[quantity] for quantity in counted.quantities}
