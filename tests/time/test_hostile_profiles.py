"""Profiles from others: whatever number, name or list in one is not what it should be, it is refused or gives times."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calc import load_model
from calc.errors import Refused
from calc.time import predict, read_profile
from calc.time.device.profile import PROFILES

SPEC = load_model("gpt2")
WHOLE = json.loads((PROFILES / "h100-sxm.json").read_text())
READ = ("gemm", "attention", "attention_backward", "decode", "passes", "launch", "collectives")
NUMBERS = (0, -1, 99, -1e9, 1e9, 1e300, 1e-300, 10**30)
WORDS = (None, "x", -1)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything in a document, of long lists to their beginning."""
    inner = value.items() if isinstance(value, dict) else list(enumerate(value))[:4] if isinstance(value, list) else ()
    return [path, *(found for name, each in inner for found in places(each, (*path, name)))]


def changed(old: Any, how: int) -> Any:
    """What is not there as it should be: shorter, longer, the other way round, or another value."""
    if isinstance(old, list):
        return ([], old[:-1], old + old, old[::-1])[how % 4]
    if isinstance(old, dict):
        return ({}, dict(list(old.items())[:-1]))[how % 2]
    others = NUMBERS if isinstance(old, int | float) and not isinstance(old, bool) else WORDS
    return others[how % len(others)]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    where=st.sampled_from([path for name in READ if name in WHOLE for path in places(WHOLE[name], (name,))]),
    how=st.integers(0, 7),
    phase=st.sampled_from(["training", "decode", "prefill"]),
)
def test_a_profile_is_refused_or_gives_times(where: tuple[Any, ...], how: int, phase: Any, tmp_path: Path) -> None:
    document = copy.deepcopy(WHOLE)
    *above, last = where
    around = document
    for name in above:
        around = around[name]
    around[last] = changed(around[last], how)
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(document))
    try:
        found = predict(SPEC, read_profile(path), phase=phase, seq=256, context=256)
    except Refused as refused:
        assert "\n" not in str(refused)
    else:
        assert 0 < found.seconds < math.inf
        assert 0 < found.interval.low <= found.interval.high < math.inf


SMOOTH = {"itemsize": 4.0, "per_flop": 1e-11, "per_byte": 1e-10, "start": 1e-5}


@pytest.mark.parametrize("kind", ["gemm", "attention", "decode"])
@pytest.mark.parametrize("name", ["per_flop", "per_byte"])
@pytest.mark.parametrize("value", [-1, 1e-30, "fast"])
def test_what_no_device_does_is_refused_by_its_own_name(tmp_path: Path, kind: str, name: str, value: object) -> None:
    document = {"name": "mine", "device": "mine", "kind": "cpu", "provenance": WHOLE["provenance"]}
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({**document, kind: {"fp32": SMOOTH}}))
    assert getattr(read_profile(path), kind)["fp32"].per_byte == 1e-10
    path.write_text(json.dumps({**document, kind: {"fp32": {**SMOOTH, name: value}}}))
    with pytest.raises(Refused, match=rf"{kind}\.fp32\.smooth\.{name}: expected ") as refused:
        read_profile(path)
    assert "Model" not in str(refused.value)
