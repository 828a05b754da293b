"""Random small configs of every family that transformers has: what we count, or refuse, against its own model.

Each family's small configs are taken as they are and with keys varied (`varied.py`): left out, null, another value,
under another family's name, or a key of another family beside them. Whatever our importer reads must have the
parameters, the FLOPs and the cache of the model that transformers builds of the same config; a refusal is always
allowed of a varied config and never of one as it is. Configs of which transformers builds nothing prove nothing, and
where its model does not run, only parameters are compared: that is a failure, or where it is known why, a skip.

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
PICTURES, FEATURES = "it needs pictures beside tokens", "it needs features of sound of a size of their own"
NOT_RUN = {
    "blt": "its cache asks the config for num_hidden_layers, which that lacks",
    "decision_transformer": "it reads states, actions and returns, no tokens",
    "clip_text_model": "it has fewer positions than the tokens that are run",
    "clip": PICTURES,
    "siglip": PICTURES,
    "siglip2": PICTURES,
    "vision-encoder-decoder": PICTURES,
    "whisper": FEATURES,
    "speech_to_text": FEATURES,
}
"""Families whose model does not run on tokens alone, and why."""


def ours(raw: dict[str, Any]) -> tuple[ModelSpec, int]:
    spec = from_config(raw)
    return spec, sum(parameters(spec).values())


class NotRun(Exception):
    """Why only parameters could be compared."""


def disagreements(raw: dict[str, Any], spec: ModelSpec, total: int, model: Any) -> tuple[dict[str, Any], str]:
    """What we say and what transformers' model has, where they differ; and why FLOPs and cache were not compared, ""
    where they were."""
    found, why = {"parameters": (total, their_models.total(model))}, ""
    if spec.reads_tokens and not raw["model_type"].startswith(EXPERTS):
        try:
            found |= _run(raw, spec, model)
        except NotRun as error:
            why = str(error)
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}, why


def _run(raw: dict[str, Any], spec: ModelSpec, model: Any) -> dict[str, tuple[Any, Any]]:
    """Errors: NotRun where the model runs neither with numbers nor without, or we refuse to count its FLOPs."""
    try:
        flops, cache = their_models.run(their_models.with_numbers(model))
    except Exception:
        try:
            flops, cache = their_models.run(model.to("meta"))
        except Exception as error:
            raise NotRun(f"{type(model).__name__} does not run: {error!r}") from error
    source = None if spec.encoder is None else SOURCE if their_models.reads_two(model) else SEQ
    try:
        counted = forward(spec, Load(batch=BATCH, seq=SEQ, source=source)).total
    except Refused as refused:
        # Texts of this length are (BigBird's longer ones where none to come are seen, or none are drawn).
        raise NotRun(f"refused: {refused}") from refused
    found: dict[str, tuple[Any, Any]] = {"flops": (counted, flops)}
    if cache is not None and raw["model_type"] not in OTHER_CACHE:
        found["cache"] = (kv_cache(spec, BATCH, SEQ, "fp32", "cache", source=source).total_bytes, cache)
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_as_it_is(family: str) -> None:
    raw = {"model_type": family, **CONFIGS[family][0]}
    found, why = disagreements(raw, *ours(raw), their_models.build(raw))
    assert found == {}
    assert bool(why) == (family in NOT_RUN), why or "it runs, and must not be listed"
    if why:
        pytest.skip(f"parameters alone are compared: {NOT_RUN[family]} ({why})")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_varied(family: str) -> None:
    rng, left = random.Random(f"{SEED} {family}"), []
    for _ in range(COUNT):
        raw = vary(family, rng.choice(CONFIGS[family]), rng)
        try:
            spec, total = ours(raw)
        except Refused as refused:
            left.append(f"refused: {refused}")
            continue
        try:
            model = their_models.build(raw)
        except Exception as error:
            # There is nothing to differ from.
            left.append(f"transformers builds nothing of it: {error!r}")
            continue
        found, why = disagreements(raw, spec, total, model)
        assert found == {}, raw
        left += [why] * bool(why)
    if len(left) == COUNT:
        pytest.skip(f"none of {COUNT} was compared in full; the last: {left[-1]}")
