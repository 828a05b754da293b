"""Knobs of a plan: how a model is trained or served, and the options that say so on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import streamlit as st

from calc.cli.run_options import flags_of
from calc.dtypes import CACHE_DTYPES, DTYPES
from calc.spec import ModelSpec
from calc.spec.run import EXECUTIONS, MODES, Mode, Run
from calc.spec.run.engines import allocating_names
from calc.spec.run.optimizers import OPTIMIZERS
from calc.spec.run.precision import GRADIENT_DTYPES, RECIPES
from dashboard import knobs
from dashboard.shared import chosen, share

RANKS = tuple(2**power for power in range(13))
USUAL = "AdamW as the formats have it"
NONE = "none"
OF_RECIPE = "as the number formats have it"
SHARED = ("recipe", "execution")
"""Choices of words that mean the same on other pages."""
MEANINGS = {
    "dp": "data-parallel ranks",
    "tp": "tensor-parallel ranks",
    "pp": "stages of a pipeline",
    "cp": "context-parallel ranks",
    "ep": "ranks that experts are spread over",
}
"""Degrees of a plan, in the order of the knobs."""
DEGREES: dict[str, tuple[str, ...]] = {"training": ("dp", "tp", "pp", "cp", "ep"), "inference": ("tp", "pp")}


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The question, and the options that put it on the command line."""

    run: Run
    flags: tuple[str, ...]


def requested(spec: ModelSpec) -> PlanRequest:
    """Draw the knobs, six of them in sight. Errors: Refused for a plan that cannot be."""
    modes: tuple[Mode, ...] = MODES if spec.reads_tokens else ("training",)
    knobs.forget_stale("mode", list(modes))
    left, middle, right = st.columns(3)
    mode = left.segmented_control("Mode", modes, default="training", key="mode", required=True, bind="query-params")
    with middle:
        seq = knobs.seq(spec)
    with right:
        batch = knobs.batch("Sequences of one rank")
    own = _training(left, middle) if mode != "inference" else _inference(left, middle)
    knobs.without_pictures(spec)
    run = Run(mode=cast(Mode, mode or "training"), seq=seq, batch=batch, **own)
    return PlanRequest(run, tuple(_flags(run)))


def _training(left: Any, middle: Any) -> dict[str, Any]:
    with left:
        recipe = _choice("Number formats", [each.name for each in RECIPES], "bf16-mixed", "recipe")
    with middle:
        checkpointing = knobs.checkpointing()
    with details("training", "optimizer", "execution", "gradients"):
        one, two, three = st.columns(3)
        with one:
            optimizer = _choice("Optimizer", [USUAL, *(each.name for each in OPTIMIZERS)], USUAL, "optimizer")
        with two:
            execution = _choice("Kernels", EXECUTIONS, "sdpa", "execution")
        with three:
            gradients = _choice("Gradients", [OF_RECIPE, *GRADIENT_DTYPES], OF_RECIPE, "gradients")
        spread = degrees("training")
    return {
        "recipe": recipe,
        "gradient_dtype": None if gradients == OF_RECIPE else gradients,
        "optimizer": None if optimizer == USUAL else optimizer,
        "execution": execution,
        "checkpointing": checkpointing,
        **spread,
    }


def _inference(left: Any, middle: Any) -> dict[str, Any]:
    with left:
        dtype = _choice("Weights", [each.name for each in DTYPES], "bf16", "dtype")
    with middle:
        cache = _choice("Keys and values", ["as activations", *CACHE_DTYPES], "as activations", "cache")
    with details("inference", "engine"):
        engine = _choice("Allocated by", [NONE, *allocating_names()], NONE, "engine")
        spread = degrees("inference")
    return {
        "dtype": dtype,
        "cache_dtype": None if cache == "as activations" else cache,
        "engine": None if engine == NONE else engine,
        **spread,
    }


def details(mode: str, *more: str) -> Any:
    """The fold of the knobs of several GPUs and of `more` keys; open where a link or a visitor has set any of them."""
    keys = (*DEGREES[mode], "zero", *more)
    changed = any(key in st.query_params or chosen(key) not in (None, getattr(Run(), key, None)) for key in keys)
    words = "Several GPUs" + (", optimizer, kernels" if "optimizer" in more else ", engine" if "engine" in more else "")
    return st.expander(words, expanded=changed)


def degrees(mode: str) -> dict[str, Any]:
    """Draw the knobs of how many GPUs share the work; their values, as a plan has them."""
    names = DEGREES[mode]
    found: dict[str, Any] = {}
    for row in (names[:3], names[3:]):
        for cell, name in zip(st.columns(3), row, strict=False):
            with cell:
                share(name, RANKS, 1)
                found[name] = st.selectbox(name.upper(), RANKS, key=name, bind="query-params", help=MEANINGS[name])
    if mode == "training":
        share("zero", (0, 1, 2, 3), 0)
        found["zero"] = st.segmented_control(
            "ZeRO",
            [0, 1, 2, 3],
            default=0,
            key="zero",
            required=True,
            bind="query-params",
            help="Data-parallel ranks divide 1 the optimizer, 2 gradients, 3 weights too",
        )
    return found


def _choice(label: str, words: Any, usual: str, key: str) -> str:
    names = list(words)
    if key in SHARED:
        share(key, names, usual)
    return str(st.selectbox(label, names, index=names.index(usual), key=key, bind="query-params"))


def _flags(run: Run) -> list[str]:
    """The options that say this run: its lengths, and what else is not the default."""
    usual = Run(execution="sdpa")
    given = [name for name in Run.model_fields if getattr(run, name) not in (None, getattr(usual, name))]
    names = dict.fromkeys(["seq", "batch", *given])
    return [word for name in names for word in (flags_of(name)[0], str(getattr(run, name)))]
