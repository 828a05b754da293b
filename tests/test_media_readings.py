"""Pictures, sound and tables: one tree, three readings, whatever their size; and what the lengths come to."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from calc import load_model
from calc.architectures import from_config
from calc.errors import Refused
from calc.quantities.flops import forward, training
from calc.quantities.parameters import parameters
from calc.spec import Convolution, Features, Frames, ModelSpec, Patches
from calc.spec.load import Load
from calc.spec.resizing import symbolic, with_sizes
from calc.trace.op import Op
from calc.trace.primitives.convolution import steps
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace
from tests.architectures.cases_media import MEDIA
from tests.test_three_readings import numbers_in

PRESETS = ("conformer-s", "conformer-aed", "ft-transformer")
FIXED = ("mllama", "mllama_vision_model", "sam", "sam2", "sam_vision_model")
"""Models whose pictures are of one size; each sequence of Llama's has one."""
WHOLE = {"sam2_hiera_det_model": 32, "sam2_vision_model": 32}
"""Of whole so many pixels along a side a model's pictures must be: all of its stages pool without a rest."""
each_model = pytest.mark.parametrize("name", [*MEDIA, *PRESETS])
sides = st.integers(64, 400)


@cache
def spec_of(name: str) -> ModelSpec:
    return load_model(name) if name in PRESETS else from_config({"model_type": name} | MEDIA[name][0])


def everything(spec: ModelSpec, load: Load) -> list[object]:
    passes = (forward(spec, load), training(spec, load))
    return [*parameters(spec).values(), *(term for count in passes for term in (count.linear, count.attention))]


SYMBOLS = sympy.symbols("batch seq source images tall wide", positive=True)


@cache
def formulas(name: str) -> tuple[list[sympy.Expr], dict[sympy.Symbol, int]]:
    """Everything of a model in symbols, and the values of its sizes."""
    symbols, values = symbolic(spec_of(name))
    batch, seq, source, images, *image = SYMBOLS
    fixed = name in FIXED
    load = Load(batch, seq, source=source, images=0 if fixed else images, image=None if fixed else tuple(image))
    return [sympy.sympify(each) for each in everything(symbols, load)], values


@each_model
@settings(max_examples=3, deadline=None)
@given(st.tuples(sides, sides), st.integers(400, 3000), st.integers(1, 40), st.integers(0, 3))
def test_symbols_give_the_exact_ints(name: str, image: tuple[int, int], source: int, seq: int, images: int) -> None:
    image = tuple(side - side % WHOLE.get(name, 1) for side in image)
    read = None if name in FIXED else image
    images = 0 if name in FIXED else images
    exact = everything(spec_of(name), Load(batch=2, seq=seq, source=source, images=images, image=read))
    found, values = formulas(name)
    values = values | dict(zip(SYMBOLS, (2, seq, source, images, *image), strict=True))
    assert numbers_in(found, values) == exact


@each_model
def test_arrays_give_the_exact_ints(name: str) -> None:
    spec = spec_of(name)
    columns = {"batch": [1, 3, 2], "source": [400, 1001, 2500], "tall": [64, 97, 200], "wide": [80, 65, 333]}
    for each in ("tall", "wide"):
        columns[each] = [side - side % WHOLE.get(name, 1) for side in columns[each]]
    arrays = {each: numpy.array(values, dtype=float) for each, values in columns.items()}
    widths = [spec.d_model, 2 * spec.d_model, 6 * spec.d_model]
    # Without a projection, the last convolution's channels are the width, and have a symbol of their own.
    wide = with_sizes(spec, {"d_model": numpy.array(widths, dtype=float)})
    images = 0 if name in FIXED else 2
    image = None if name in FIXED else (arrays["tall"], arrays["wide"])
    together = everything(wide, Load(arrays["batch"], 7, source=arrays["source"], images=images, image=image))
    for i in range(3):
        alone = {each: values[i] for each, values in columns.items()}
        image = None if name in FIXED else (alone["tall"], alone["wide"])
        load = Load(alone["batch"], 7, source=alone["source"], images=images, image=image)
        exact = everything(with_sizes(spec, {"d_model": widths[i]}), load)
        for column, value in zip(together, exact, strict=True):
            assert numpy.broadcast_to(numpy.asarray(column, dtype=float), 3)[i] == pytest.approx(value, rel=1e-12)


def test_what_the_lectures_say_of_patches() -> None:
    """A picture of 224 x 224 is 196 patches of 16 x 16, and about 50,000 tokens pixel by pixel."""
    for side, tokens in ((16, 196), (1, 50_176)):
        patches = Patches(height=224, width=224, patch_height=side, patch_width=side)
        layers = spec_of("vit").layers
        spec = ModelSpec(d_model=32, embedding=patches, layers=layers, head=None)
        pairs = forward(spec, Load()).attention
        assert pairs == 4 * tokens**2 * 32 * layers[0].count


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(1, 12), st.integers(1, 5), st.integers(0, 6))
def test_steps_are_those_of_torch(n: int, kernel: int, stride: int, padding: int) -> None:
    torch = pytest.importorskip("torch")
    if n + 2 * padding < kernel:
        return
    conv = torch.nn.Conv1d(3, 4, kernel, stride, padding, device="meta")
    assert steps(n, kernel, stride, padding) == conv(torch.empty(1, 3, n, device="meta")).shape[-1]


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("vit", Load(image=(40, 7))),
        ("detr", Load(image=(0, 5))),
        ("wav2vec2", Load(source=9)),
        ("deit", Load(image=(7, 40))),
        ("mllama", Load(image=(34, 34))),
        ("mllama", Load(images=1)),
        ("mllama_vision_model", Load(image=(34, 34))),
        ("sam2", Load(image=(64, 64))),
        ("sam_vision_model", Load(image=(56, 56))),
    ],
)
def test_pictures_that_are_too_small_or_that_nothing_reads_are_refused(name: str, load: Load) -> None:
    with pytest.raises(Refused):
        forward(spec_of(name), load)


def test_a_grouped_convolution_multiplies_a_group_with_its_own_channels() -> None:
    t = Trace()
    t.convolution("conv", Tensor(40, 12), 24, (3, 5), 10, groups=4)
    (op,) = (child for child in t.body if isinstance(child, Op))
    assert op.flops == 2 * 10 * 24 * 3 * 15
    assert op.weights[0].shape == (24, 3, 3, 5)


def _tower() -> dict[str, Any]:
    """The tower of Llama 3.2 Vision, as one may write it."""
    return spec_of("mllama").model_dump()["encoder"]


def _retold(**other: Any) -> ModelSpec:
    """That model with something described otherwise."""
    return ModelSpec.model_validate(spec_of("mllama").model_dump() | other)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Patches(height=8, width=224, patch_height=16, patch_width=16), "height"),
        (
            lambda: Frames(n_frames=5, d_frame=4, convolutions=(Convolution(name="c", n_channels=3, kernel=9),)),
            "n_frames",
        ),
        (lambda: _retold(embedding=_tower()["embedding"]), "embedding"),
        (lambda: _retold(encoder=_tower() | {"name": "vision"}), "embedding"),
        (lambda: _retold(encoder=_tower() | {"stages": None}), "stages"),
        (lambda: _retold(encoder=_tower() | {"final_norm": {}}), "stages"),
        (lambda: _retold(encoder=_tower() | {"projectors": ()}), "stages"),
        (lambda: _retold(stages=_tower()["stages"]), "stages"),
        (lambda: _retold(encoder=_tower() | {"stages": _tower()["stages"] | {"beside": (4,)}}), "beside"),
        (lambda: _retold(layers=[{"count": 2, "gates": True, "placement": "post"}]), "gates"),
        (lambda: Features(), "n_numbers"),
        (lambda: Features(categories=(3, 0)), "categories"),
    ],
)
def test_refuses(make: object, field: str) -> None:
    with pytest.raises(Exception, match=field) as caught:
        make()
    assert isinstance(caught.value, (Refused, ValueError))
