"""`verify` over published configs, cut to few layers, against our model, one of those alike but for their sizes; some
whole against transformers."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

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


def family(name: str) -> str:
    return str(reference.config(name)["model_type"])


FAMILIES = {each: tuple(names) for each, names in groupby(sorted(NAMES, key=family), family)}
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
    # Rows and columns of streams' matrices in fewer turns, which change no shape and no product of matrices.
    mixing = spec.stream_mixing.model_copy(update={"rounds": 2})
    return shallow(spec).model_copy(update=towers | {"stream_mixing": mixing})


def without_sizes(written: Any, key: str = "") -> Any:
    """A description's words, flags, and which numbers it has: alike of models that differ in sizes only."""
    if isinstance(written, dict):
        return {name: without_sizes(each, name) for name, each in written.items()}
    if isinstance(written, list):
        return [without_sizes(each, key) for each in written]
    return None if key == "name" else "a number" if type(written) in (int, float) else written


@pytest.mark.parametrize("names", FAMILIES.values(), ids=FAMILIES)
def test_against_our_model(names: tuple[str, ...]) -> None:
    """The first of those of a family that differ in sizes only."""
    specs = [cut(from_config(reference.config(name), name)) for name in names]
    unlike = {json.dumps(without_sizes(spec.model_dump(mode="json"))): spec for spec in reversed(specs)}
    for spec in unlike.values():
        check(spec)


def check(spec: ModelSpec) -> None:
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
