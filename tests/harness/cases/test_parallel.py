"""Two processes over gloo: collectives give what they should, and spread steps what one process gives."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from harness.cases import make


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        *(("collective", {"op": each, "nbytes": 8192}) for each in ("all_reduce", "all_gather", "reduce_scatter")),
        *(("parallel_training", {"model": "tiny-gpt", "seq": 12, "strategy": each}) for each in ("ddp", "fsdp")),
    ],
)
def test_two_processes(kind: str, params: dict[str, Any]) -> None:
    ready = make(kind, params).ready("cpu")
    assert ready.close is not None
    assert ready.check is not None
    try:
        assert ready.check() <= 1e-5
        ready.run()
    finally:
        ready.close()
