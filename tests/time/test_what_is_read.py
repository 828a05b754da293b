"""A time is of what the run says is read: pictures of the size that is asked for, and MFU of the same."""

from __future__ import annotations

from typing import Any

import pytest

import calc
from calc.architectures import from_config
from calc.architectures.models import load_model
from calc.quantities.kv_cache import kv_cache
from calc.time import predict

DIT: dict[str, Any] = {"_class_name": "DiTTransformer2DModel", "num_layers": 2, "sample_size": 64}


@pytest.mark.parametrize("image", [None, (256, 256)])
def test_pictures_are_of_the_size_that_is_asked_for(image: tuple[int, int] | None) -> None:
    spec = from_config(DIT)
    found = predict(spec, "h100-sxm", phase="training", batch=8, image=image)
    counted = calc.estimate(spec, "flops.training", batch=8, image=image).value
    assert found.mfu is not None
    assert found.peak is not None
    assert found.mfu * found.seconds * found.peak == pytest.approx(float(counted))
    ran = sum(float(row.kernel.flops) * float(row.kernel.calls) for row in found.kernels)
    assert ran == pytest.approx(float(counted), rel=0.05)  # and what works number by number


@pytest.mark.parametrize("name", ["t5-xxl", "transformer-big"])
def test_decoding_keeps_the_source_that_it_reads(name: str) -> None:
    """Where nobody says how long it is: whatever the context, and whether the memory is asked or the time."""
    spec = load_model(name)
    found = predict(spec, "h200", phase="decode", batch=4, context=100)
    said = predict(spec, "h200", phase="decode", batch=4, context=100, source_seq=2048)
    assert (found.seconds, found.memory) == (said.seconds, said.memory)
    assert found.memory.live["kv_cache"] == kv_cache(spec, batch=4, seq=101, source=2048).total_bytes
