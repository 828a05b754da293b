"""Every reference model under plans of each kind: a time, or a refusal in one line."""

from __future__ import annotations

from typing import Any

import pytest

from calc.architectures import from_config
from calc.errors import Refused
from calc.time import predict, speed_of
from tests import reference

PLANS: tuple[dict[str, Any], ...] = (
    {"phase": "training", "tp": 2},
    {"phase": "training", "cp": 2},
    {"phase": "training", "dp": 4, "ep": 4},
    {"phase": "training", "pp": 2},
    {"phase": "decode", "tp": 2},
    {"phase": "prefill", "tp": 2},
)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: " ".join(f"{name} {word}" for name, word in plan.items()))
def test_every_model_has_a_time_or_a_reason(plan: dict[str, Any]) -> None:
    reference.folder()
    speed, timed = speed_of("h100-sxm"), 0
    for record in reference.models():
        spec = from_config(reference.config(record["name"]))
        try:
            found = predict(spec, speed, batch=2, seq=64, context=64, **plan)
        except Refused:
            continue
        assert 0 < found.interval.low <= found.seconds <= found.interval.high, spec.name
        timed += 1
    assert timed > 20
