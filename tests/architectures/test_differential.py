"""Random small configs of every family that transformers has: what we count, or refuse, against its own model.

Each family's small configs are taken as they are and with keys varied (`varied.py`): left out, null, another value,
under another family's name, or a key of another family beside them. Whatever our importer reads must have the
parameters, the FLOPs and the cache of the model that transformers builds of the same config; a refusal is always
allowed of a varied config and never of one as it is. Configs of which transformers builds nothing prove nothing.

ENVELOPE_DIFFERENTIAL sets how many varied configs of each family are tried (3 where it is not set, within a minute);
ENVELOPE_DIFFERENTIAL_SEED moves on to others. A long search:

    ENVELOPE_DIFFERENTIAL=500 python -m pytest tests/architectures/test_differential.py
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward  # noqa: E402
from calc.quantities.kv_cache import kv_cache  # noqa: E402
from calc.quantities.parameters import parameters  # noqa: E402
from calc.spec import ModelSpec  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from tests.architectures import their_models  # noqa: E402
from tests.architectures.their_models import BATCH, SEQ, SOURCE  # noqa: E402
from tests.architectures.varied import CONFIGS, vary  # noqa: E402

COUNT = int(os.environ.get("ENVELOPE_DIFFERENTIAL", "3"))
SEED = os.environ.get("ENVELOPE_DIFFERENTIAL_SEED", "0")
FAMILIES = [family for family in CONFIGS if their_models.known(family)]
# transformers runs all experts of these on all tokens, or by a loop over data, which the meta device has none of.
EXPERTS = ("llama4", "dbrx", "longcat_flash", "switch_transformers", "nllb-moe")
# Falcon's newer models cache keys and values of all heads; MiniMax's class has a cache of its own kind.
OTHER_CACHE = ("falcon", "minimax")


def ours(raw: dict[str, Any]) -> tuple[ModelSpec, int]:
    spec = from_config(raw)
    return spec, sum(parameters(spec).values())


def disagreements(raw: dict[str, Any], spec: ModelSpec, total: int, model: Any) -> dict[str, tuple[Any, Any]]:
    """What we say and what transformers' model has, where they differ."""
    found = {"parameters": (total, their_models.total(model))}
    if spec.reads_tokens and not raw["model_type"].startswith(EXPERTS):
        found |= _run(raw, spec, model)
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}


def _run(raw: dict[str, Any], spec: ModelSpec, model: Any) -> dict[str, tuple[Any, Any]]:
    """Nothing where the model runs neither with numbers nor without."""
    try:
        flops, cache = their_models.run(their_models.with_numbers(model))
    except Exception:
        try:
            flops, cache = their_models.run(model.to("meta"))
        except Exception:
            return {}
    source = None if spec.encoder is None else SOURCE if their_models.reads_two(model) else SEQ
    try:
        counted = forward(spec, Load(batch=BATCH, seq=SEQ, source=source)).total
    except Refused:
        # Texts of this length are (BigBird's longer ones where none to come are seen, or none are drawn).
        return {}
    found: dict[str, tuple[Any, Any]] = {"flops": (counted, flops)}
    if cache is not None and raw["model_type"] not in OTHER_CACHE:
        found["cache"] = (kv_cache(spec, BATCH, SEQ, "fp32", "cache", source=source).total_bytes, cache)
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_as_it_is(family: str) -> None:
    raw = {"model_type": family, **CONFIGS[family][0]}
    assert disagreements(raw, *ours(raw), their_models.build(raw)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_varied(family: str) -> None:
    rng = random.Random(f"{SEED} {family}")
    for _ in range(COUNT):
        raw = vary(family, rng.choice(CONFIGS[family]), rng)
        try:
            spec, total = ours(raw)
        except Refused:
            continue
        try:
            model = their_models.build(raw)
        except Exception:
            # transformers builds nothing of it, so there is nothing to differ from.
            continue
        assert disagreements(raw, spec, total, model) == {}, raw
