"""What is kept, read with ints, with symbols and with arrays."""

from __future__ import annotations

import numpy
import pytest
import sympy

from calc.architectures import from_config
from calc.quantities.saved_tensors import saved_tensors
from calc.spec import ModelSpec
from calc.spec.load import Load
from calc.spec.resizing import sizes_of, symbolic, with_sizes
from calc.trace.settings import Settings
from tests.architectures.cases import BASES
from tests.architectures.cases_latent import LATENT_CASES
from tests.architectures.cases_media import MEDIA
from tests.architectures.cases_recent import RECENT
from tests.architectures.cases_text import TEXT
from tests.architectures.cases_vision import SEEING
from tests.test_three_readings import numbers_in

CONFIGS = BASES | {
    name: cases[0]
    for name, cases in (*TEXT.items(), *LATENT_CASES.items(), *RECENT.items(), *MEDIA.items(), *SEEING.items())
}
NAMES = [
    "gpt2",
    "gptj",
    "bloom",
    "mistral",
    "gemma3_text",
    "gpt_oss",
    "qwen2_moe",
    "t5",
    "albert",
    "deepseek_v32",
    "phimoe",
    "gemma4_text",
    "whisper",
    "decision_transformer",
]
WAYS = [
    Settings("eager"),
    Settings("sdpa", autocast=True, dropout=0.1),
    Settings("compiled", recompute=frozenset({"norm"})),
]


def total(spec: ModelSpec, load: Load, settings: Settings) -> object:
    return sum(count * saved.tensor.bytes for count, saved in saved_tensors(spec, load, settings).everything())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("settings", WAYS, ids=lambda way: way.execution)
def test_three_readings_agree(name: str, settings: Settings) -> None:
    agree(from_config({"model_type": name, **CONFIGS[name]}), settings)


def agree(spec: ModelSpec, settings: Settings, n: int = 24) -> None:
    """What is kept of sequences of `n` tokens, by ints, by symbols and by arrays."""
    exact = total(spec, Load(batch=3, seq=n), settings)
    symbols, values = symbolic(spec)
    batch, seq = sympy.symbols("batch seq", positive=True)
    formula = total(symbols, Load(batch=batch, seq=seq), settings)
    assert numbers_in([formula], {**values, batch: 3, seq: n}) == [exact]
    column = {size: numpy.full(2, float(value)) for size, value in sizes_of(spec).items()}
    found = total(with_sizes(spec, column), Load(batch=numpy.full(2, 3.0), seq=numpy.full(2, float(n))), settings)
    assert numpy.array_equal(numpy.broadcast_to(found, (2,)), [exact, exact])  # type: ignore[arg-type]
