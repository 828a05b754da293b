"""Products in 16 bits whose rows are no multiple of 16 bytes."""

from __future__ import annotations

from typing import Any

import pytest

from calc.spec.run import ExecutionName
from calc.time import matmul
from calc.time.device.speed_of import speed_of
from calc.time.kernels.timing import Timing, time_of

TOKENS, WIDTH = 8192, 768


def timed(
    columns: int, gpu: str = "h200", execution: ExecutionName = "sdpa", use: Any = "forward", **words: Any
) -> Timing:
    """Of the head's product, or of the gradient of its weight."""
    sizes = (columns, WIDTH, TOKENS) if use == "wgrad" else (TOKENS, columns, WIDTH)
    kernel = matmul(*sizes, words.get("dtype", "bf16"), use=use)
    return time_of([kernel], speed_of(gpu), execution)[0]


@pytest.mark.parametrize("use", ["forward", "wgrad"])
def test_an_odd_vocabulary_takes_as_long_as_measured(use: str) -> None:
    """GPT-2's head took 15.5 ms in three such products on an H200; one that is a multiple of 8, a fifth or less."""
    odd, even = timed(50_257, use=use), timed(50_304, use=use)
    assert 3 * odd.seconds == pytest.approx(15.5e-3, rel=0.02)
    assert odd.seconds > 5 * even.seconds
    assert odd.low < odd.seconds < odd.high


def test_rows_of_an_even_number_of_elements_may_take_less() -> None:
    odd, even = timed(50_257), timed(50_258)
    assert even.low / even.seconds < 0.5 < odd.low / odd.seconds


@pytest.mark.parametrize(
    "words",
    [{"gpu": "a100-sxm-80gb"}, {"execution": "compiled"}, {"dtype": "fp32"}, {"dtype": "fp8"}],
    ids=lambda words: "-".join(words.values()),
)
def test_where_no_rule_is_known_or_matrices_are_padded(words: dict[str, Any]) -> None:
    assert timed(50_257, **words).seconds == pytest.approx(timed(50_264, **words).seconds, rel=0.02)


def test_tokens_are_no_row() -> None:
    """An odd number of them reads and writes rows as wide as before."""
    odd, even = (time_of([matmul(tokens, 768, 768, "bf16")], speed_of("h200"), "sdpa")[0] for tokens in (8191, 8192))
    assert odd.seconds == pytest.approx(even.seconds, rel=0.1)


def test_smaller_relatives_take_longer_by_their_cores() -> None:
    cores = {name: speed_of(name).device.cores.value for name in ("h20", "h200")}
    ratio = timed(50_257, "h20").seconds / timed(50_257).seconds
    assert ratio == pytest.approx(cores["h200"] / cores["h20"])
