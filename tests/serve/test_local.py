"""llama.cpp on one machine: benchmarks that others published, and what docs/serving-measured.md prints of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from calc.architectures.models import load_model
from calc.errors import Refused
from calc.serve.constants import constants, constants_of
from calc.serve.formats import served_format
from calc.serve.layout import Layout
from calc.serve.rank import rank_of
from calc.serve.rates import rates_of
from calc.serve.work import work_of
from calc.spec import ModelSpec
from calc.spec.catalogue import load_device
from harness.serving.fitting import fitted_systems
from harness.serving.local import LocalCase, LocalRow, local_case, local_rows, local_seconds
from harness.serving.local_fitting import local_fit, local_start
from harness.serving.local_scoring import local_judged, local_table
from harness.serving.refitting import model_of
from harness.serving.scoring import FOLDS, errors_of
from tests.reference import ROOT, folder

OWN = Path(__file__).parent / "configs"
"""Shapes of models that neither the presets nor the reference data have, from their makers' model cards."""
DOCUMENT = ROOT / "docs" / "serving-measured.md"
GIB = 2**30


@cache
def spec_of(family: str) -> ModelSpec:
    """The model of a row."""
    return model_of(family, [OWN, folder() / "truth" / "configs"])


def words(spec: ModelSpec) -> float:
    """Elements of the token table."""
    assert spec.vocab_size is not None
    return float(spec.vocab_size) * float(spec.d_model)


@cache
def rows() -> tuple[list[LocalRow], int]:
    """The rows on devices of the catalogue, and how many others there are."""
    found = list(local_rows(folder() / "measured" / "inference" / "llamacpp.csv"))
    known = [row for row in found if isinstance(row, LocalRow)]
    return known, len(found) - len(known)


@cache
def cases() -> list[LocalCase]:
    return [local_case(row, spec_of(row.family)) for row in rows()[0]]


def test_shapes_have_the_weights_that_files_say() -> None:
    """llama-bench prints a file's weights in billions; 3.6's file has a layer more that guesses tokens."""
    for name, billions in (
        ("glm-4.7-flash", 29.94),
        ("qwen3.5-122b-a10b", 122.11),
        ("ministral-3-14b", 13.51),
        ("gemma-3-4b", 3.88),
        ("qwen3.6-35b-a3b", 34.66),
    ):
        work = work_of(spec_of(name))
        held = sum(x.elements(1) * x.calls * (work.n_experts if x.expert else 1) for x in work.matrices)
        table = words(spec_of(name))
        assert held / 1e9 == pytest.approx(billions - (0 if name == "gemma-3-4b" else table / 1e9), rel=0.002)


@pytest.mark.parametrize(
    ("model", "form", "size"),
    [
        ("llama-3-8b", "q4_k_m", 4.58),
        ("llama-2-7b", "q4_0", 3.56),
        ("gpt-oss-20b", "gguf-mxfp4", 11.27),
        ("gpt-oss-120b", "gguf-mxfp4", 59.02),
        ("qwen3-30b-a3b", "q8_0", 30.25),
    ],
)
def test_formats_are_as_large_as_their_files(model: str, form: str, size: float) -> None:
    """Matrices in the format's bits and the token table in four to eight and a half of them."""
    spec, known = load_model(model), served_format(form)
    held = rank_of(work_of(spec), Layout(), known, "fp16").held
    table = words(spec) / 8 / GIB
    assert held / GIB + 4.5 * table <= size * 1.02
    assert held / GIB + 8.5 * table >= size * 0.98


def test_a_file_of_so_many_bits() -> None:
    form = served_format("gguf:5.41")
    assert (form.bits, form.head) == (5.41, 5.41)
    for bad in ("gguf:0", "gguf:64", "gguf:", "gguf:x"):
        with pytest.raises(Refused, match="--dtype"):
            served_format(bad)


def test_the_split_is_of_whole_systems() -> None:
    known, _ = rows()
    listed = fitted_systems("llama_cpp")
    assert listed < {row.system for row in known}
    for side in (True, False):
        own = [row for row in known if (row.system in listed) is side]
        assert len(own) > 400
        assert {row.engine for row in own} == {"llama.cpp", "llama.cpp-vulkan"}


def test_folds_are_other_constants_than_the_shipped_ones() -> None:
    listed, others = (constants(FOLDS / f"llama_cpp_{name}.toml") for name in ("listed", "others"))
    assert listed.keys() == others.keys() == constants_of("llama.cpp").keys() == local_start().keys()
    assert listed != others
    assert constants_of("llama.cpp") not in (listed, others)


def test_the_document_prints_the_errors_of_systems_that_no_constant_saw() -> None:
    found, text = local_judged(cases()), DOCUMENT.read_text()
    assert local_table(found, "device", lambda each: each.row.device) in text
    assert local_table(found, "backend", lambda each: "Vulkan" if "vulkan" in each.row.engine else "own") in text
    assert f"{rows()[1]} of {len(found) + rows()[1]} rows" in " ".join(text.split())
    assert len(found) >= 800
    assert errors_of(each.speed for each in found).median <= 0.15
    assert 0.85 <= sum(each.inside for each in found) / len(found) <= 0.95


def test_cores_bound_what_a_stream_reaches() -> None:
    """Memory of HBM is read more slowly than its datasheet says, that of GDDR is not; with infinitely quick cores both
    reach the same share."""
    known = constants_of("llama.cpp")
    quick = {**known, "core": 1e15}
    form, shares = served_format("gguf:16"), {}
    for name in ("h100-pcie", "rtx-4000-ada"):
        device = load_device(name)
        slow, fast = (rates_of(device, form, "llama.cpp", 1, False, each).streaming for each in (known, quick))
        shares[name] = slow / fast
    assert shares["h100-pcie"] < 0.75 < 0.95 < shares["rtx-4000-ada"] <= 1


def test_prompts_overlap_over_devices_that_share_layers() -> None:
    """A prompt of one pass gains nothing from a second device; many passes nearly twice; answers nothing."""
    row = next(row for row in rows()[0] if row.prompt and row.device == "rtx-4090" and row.tokens == 512)

    def seconds(devices: int, tokens: int, prompt: bool = True) -> float:
        one = local_case(replace(row, devices=devices, tokens=tokens, prompt=prompt), spec_of(row.family))
        return float(local_seconds([one], constants_of("llama.cpp"))[0])

    assert seconds(2, 512) == seconds(1, 512)
    assert 1.8 < seconds(1, 8192) / seconds(2, 8192) < 2
    assert seconds(2, 512, prompt=False) == seconds(1, 512, prompt=False)


@pytest.mark.slow
def test_a_fit_finds_what_rows_were_made_with() -> None:
    """Tokens a second made by known constants: the fit predicts them, whatever it started from."""
    some = [case for case in cases() if case.row.family == "llama-3-8b"]
    truth = local_start() | {"streaming": 0.6, "kernel": 7e-6, "computing": 0.3}
    made = local_seconds(some, truth)
    tokens = [case.row.batch * (case.row.tokens if case.row.prompt else 1) for case in some]
    known = [
        replace(case, row=replace(case.row, per_second=count / float(one)))
        for case, count, one in zip(some, tokens, made, strict=True)
    ]
    found = local_fit(known, rounds=15)
    assert abs(local_seconds(known, found) / made - 1).mean() < 0.03
