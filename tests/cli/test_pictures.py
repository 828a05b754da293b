"""`memory --images`: what a vision tower beside text keeps of the pictures that it reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from calc.architectures.models import load_model
from calc.cli import cli
from calc.errors import Refused
from calc.time import predict
from tests.architectures.cases_vision import SEEING

Held = Callable[..., dict[str, Any]]


@pytest.fixture
def seeing(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "qwen2_5_vl", **SEEING["qwen2_5_vl"][0]}))
    return str(path)


@pytest.fixture
def held(seeing: str) -> Held:
    def asked(*words: str) -> dict[str, Any]:
        result = CliRunner().invoke(cli, ["memory", seeing, "--seq", "64", *words, "--json"], catch_exceptions=False)
        return json.loads(result.stdout)

    return asked


def test_every_picture_keeps_as_much(held: Held) -> None:
    records = [held("--images", str(n)) for n in range(4)]
    none, one, two, three = (record["activations"] for record in records)
    assert one > none
    assert three - two == two - one > 0
    assert len({record["weights"] for record in records}) == 1
    assert [record["run"]["images"] for record in records] == [0, 1, 2, 3]


def test_it_is_the_memory_of_the_step_that_is_timed(held: Held, seeing: str) -> None:
    timed = predict(load_model(seeing), "h100-sxm", phase="training", seq=64, images=2)
    assert timed.memory.peak == held("--images", "2")["peak"]


def test_serving_pictures_and_pictures_without_a_tower_say_so(seeing: str) -> None:
    with pytest.raises(Refused, match="images: expected 0 where activations of inference are counted"):
        CliRunner().invoke(
            cli, ["memory", seeing, "--seq", "64", "--mode", "inference", "--images", "1"], catch_exceptions=False
        )
    said = CliRunner().invoke(cli, ["memory", "gpt2", "--images", "1"], catch_exceptions=False).stderr
    assert "--images changes nothing for a model without a vision tower beside its text" in said
