"""Token budgets: published figures, the fronts of our own models, and the three readings of every formula."""

from __future__ import annotations

import numpy
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import calc
from calc.blocks.patches import grid
from calc.errors import Refused
from calc.spec import Frames, Patches
from calc.spec.load import Load
from calc.tokens import budgets
from calc.tokens.amounts import BUDGETS, parse_budget


@pytest.mark.parametrize(
    ("asked", "tokens"),
    [
        ("image=224x224,patch=16", 196),
        ("image=224x224,patch=16,special=1", 197),
        ("image=128x1024,patch=16,stride=10,special=2", 1214),
        ("pixels=32x32", 1024),
        ("video=32x224x224,patch=16,tube=2", 3136),
        ("sound=30,rate=16000,hop=160,conv=3:1:1+3:2:1", 1500),
        ("sound=10.24,rate=16000,hop=160,window=400", 1022),
        ("frames=3000,conv=3:1:1+3:2:1", 1500),
        ("codec=10,rate=75,codebooks=8", 6000),
        ("codec=0.1,rate=75", 8),
        ("vq=256x256,downsample=8", 1024),
        ("features=8", 9),
        ("trajectory=20", 60),
        ("bytes=2M,bytes_per_token=4", 500_000),
        ("words=100,tokens_per_word=1.3", 130),
    ],
)
def test_published_and_plain_figures(asked: str, tokens: int) -> None:
    """ViT, AST (1,212 patches and two), ImageGPT, ViViT, Whisper, EnCodec, CM3Leon, Decision Transformer."""
    assert parse_budget(f"tokens:{asked}", "--seq") == tokens


def test_every_modality_has_an_example_that_reads() -> None:
    for name, budget in BUDGETS.items():
        assert budget.example.startswith(f"{name}=")
        assert parse_budget(f"tokens:{budget.example}", "--seq") > 0


@given(st.integers(16, 500), st.integers(16, 500), st.integers(1, 16), st.integers(1, 20), st.integers(0, 3))
def test_patches_are_those_of_the_front(height: int, width: int, patch: int, stride: int, special: int) -> None:
    front = Patches(
        height=height, width=width, patch_height=patch, patch_width=patch, stride_height=stride, stride_width=stride
    )
    rows, columns = grid(front, Load())
    assert budgets.image_patches(height, width, patch, stride, special) == rows * columns + special


def test_convolutions_are_those_of_the_front() -> None:
    front = calc.load_model("conformer-s").embedding
    assert isinstance(front, Frames)
    chain = [(each.kernel, each.stride, each.padding) for each in front.convolutions]
    for n_frames in (100, 1000, 1001, 1002, 1003):
        assert budgets.convolved(n_frames, chain) == front.vectors_of(n_frames)


FORMULAS = {
    "image": (budgets.image_patches, (224, 160, 16, 10, 1)),
    "pixels": (budgets.pixels, (32, 31)),
    "video": (budgets.video_tubes, (33, 224, 160, 16, 2, 1)),
    "spectrogram": (budgets.spectrogram_frames, (30, 16000, 160, 400)),
    "codec": (budgets.codec_tokens, (11, 75, 8)),
    "vq": (budgets.vq_tokens, (256, 250, 8, 4, 1)),
    "features": (budgets.features, (14, 1)),
    "trajectory": (budgets.trajectory, (20, 3)),
    "bytes": (budgets.text_bytes, (1001, 4)),
    "words": (budgets.text_words, (1001, 2)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_three_readings(name: str) -> None:
    rule, values = FORMULAS[name]
    number = rule(*values)
    assert type(number) is int
    columns = [numpy.array([value, value], dtype=float) for value in values]
    assert rule(*columns).tolist() == [number, number]
    symbols = sympy.symbols(f"a:{len(values)}", positive=True)
    assert rule(*symbols).subs(dict(zip(symbols, values, strict=True))) == number


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("", "tokens:MODALITY=…, of image"),
        ("imag=2x2", "did you mean image"),
        ("image=224,patch=16", "HxW, such as 224x224"),
        ("image=224x224", "patch, as in tokens:image="),
        ("image=224x224,patch=16,patch=8", "at most once"),
        ("image=224x224,patch=16,tube=8", "at most once"),
        ("image=8x8,patch=16", "along a length"),
        ("image=2x2,patch=16,stride=10", "along a length"),
        ("image=9x9,patch=0", "a whole number above 0"),
        ("codec=0,rate=75", "a number above 0"),
        ("frames=9,conv=3:1", "KERNEL:STRIDE:PADDING"),
        ("frames=9,conv=3:0:1", "KERNEL:STRIDE:PADDING"),
        ("bytes=1.5,bytes_per_token=2", "a whole number above 0"),
        ("pixels=9999999x9999999", "from 1 to 2\\^40 tokens"),
    ],
)
def test_refusals(asked: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        parse_budget(f"tokens:{asked}", "--seq")
