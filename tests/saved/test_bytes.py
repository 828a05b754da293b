"""What autograd keeps of bytes in patches; to the byte."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from tests.architectures.cases_bytes import BYTES  # noqa: E402
from tests.saved.test_twins import MODES, Mode, check, expected, measured, size, twin  # noqa: E402

each_case = pytest.mark.parametrize("config", BYTES["blt"], ids=["as usual", "narrow", "three vectors"])


@each_case
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_twin(config: dict[str, Any], mode: Mode) -> None:
    check(from_config({"model_type": "blt", **config}), mode)


@each_case
@pytest.mark.parametrize("mode", [Mode(), Mode("sdpa", autocast=True), Mode("sdpa", "bf16")], ids=str)
def test_full_checkpointing_keeps_each_layers_input(config: dict[str, Any], mode: Mode) -> None:
    """In bf16 the bytes' vectors are counted twice, as what patches keep and as what the layer behind them reads."""
    spec = from_config({"model_type": "blt", **config})
    written, found = expected(spec, mode), measured(twin(spec, mode), mode, "full")
    inputs = sum(each.count * each.input.bytes for each in written.layers.values())
    twice = written.layers["encoder"].input.bytes if mode.dtype == "bf16" else 0
    assert found.total + twice == size(written.front) + inputs + size(written.end) + size(written.loss)
