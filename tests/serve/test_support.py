"""Engines start in the formats that they load, on the devices that their sources name, and no published row is lost."""

from __future__ import annotations

import re

import pytest

from calc.architectures.models import load_model
from calc.errors import Refused
from calc.serve.formats import formats
from calc.serve.layout import layout_of
from calc.serve.service import service_of
from calc.spec.catalogue import device_names, load_device
from calc.spec.run.engines import engine_named, engine_names
from harness.serving.scoring import services
from tests.serve.measured import inferencemax_rows, spec_of

SPEC = load_model("llama-3.1-8b")


@pytest.mark.parametrize(
    ("engine", "gpu", "dtype"),
    [
        ("trtllm", "h100-sxm", "q4_k_m"),
        ("trtllm", "a100-sxm-80gb", "nvfp4"),
        ("trtllm", "a100-sxm-80gb", "fp8"),
        ("llama.cpp", "rtx-4090", "fp8"),
        ("llama.cpp", "rtx-4090", "int4:g128"),
        ("vllm", "mi300x", "nvfp4"),
        ("vllm", "b200", "int8"),
        ("vllm", "h100-sxm", "q8_0"),
        ("vllm", "h100-sxm", "gguf:5.5"),
    ],
)
def test_weights_that_an_engine_does_not_load_are_refused_with_those_that_it_does(
    engine: str, gpu: str, dtype: str
) -> None:
    with pytest.raises(Refused) as refused:
        service_of(SPEC, gpu, layout_of(SPEC), engine, dtype)
    error = refused.value
    assert (error.field, error.found) == ("--dtype", dtype)
    assert f"the formats of {engine} on {gpu}" in error.expected
    words = {word.replace(":gN", ":g128") for word in re.split(r"[ ,()]+", error.expected)}
    listed = words & {*formats(), "int4:g128", "int8:g128"}
    assert "bf16" in listed
    for name in listed:
        assert service_of(SPEC, gpu, layout_of(SPEC), engine, name).form.name == name


@pytest.mark.parametrize(
    ("engine", "gpu", "cache"),
    [
        ("vllm", "h100-sxm", "int8"),
        ("vllm", "h100-sxm", "nvfp4"),
        ("sglang", "b200", "nvfp4"),
        ("trtllm", "h200", "nvfp4"),
        ("llama.cpp", "h100-sxm", "fp8"),
    ],
)
def test_caches_that_an_engine_does_not_keep_are_refused(engine: str, gpu: str, cache: str) -> None:
    with pytest.raises(Refused, match=rf"--cache-dtype: expected one of bf16, fp16.*, found {cache}"):
        service_of(SPEC, gpu, layout_of(SPEC), engine, "bf16", cache)


def test_what_is_said_of_engines_is_of_formats_and_devices_that_are_known() -> None:
    """A word that no device or format has would refuse, or allow, nothing."""
    devices = [load_device(name) for name in device_names()]
    kinds = {form.kind for form in formats().values()} | {"int4:g", "int8:g"}
    for runs in filter(None, (engine_named(name).runs for name in engine_names())):
        assert set(runs.weights) <= kinds
        for word in {*runs.on, *(word for named in (*runs.weights.values(), *runs.caches.values()) for word in named)}:
            assert any(word == each.vendor or each.architecture.startswith(word) for each in devices), word


def test_every_published_row_starts() -> None:
    rows, _ = inferencemax_rows()
    lost = 0
    for row in rows:
        try:
            services(row, spec_of(row.family))
        except Refused:
            lost += 1
    assert lost == 0
