"""What would lower the peak of a plan, as buttons that apply it to the knobs of the page."""

from __future__ import annotations

import shlex
from typing import Any

import streamlit as st

from calc.dtypes import DTYPES
from calc.memory.advice import Change
from calc.spec.run import CHECKPOINTING, EXECUTIONS
from calc.spec.run.optimizers import OPTIMIZERS
from calc.spec.run.precision import RECIPES
from calc.units import binary
from dashboard.planning import RANKS

MOST = 4
"""Buttons beside each other."""
KNOBS: dict[str, tuple[str, Any]] = {
    "--batch": ("batch", range(1, 2**12 + 1)),
    "--checkpointing": ("checkpointing", CHECKPOINTING),
    "--optimizer": ("optimizer", [each.name for each in OPTIMIZERS]),
    "--execution": ("execution", EXECUTIONS),
    "--recipe": ("recipe", [each.name for each in RECIPES]),
    "--dtype": ("dtype", [each.name for each in DTYPES]),
    "--cache-dtype": ("cache", ["fp8"]),
    "--zero": ("zero", (0, 1, 2, 3)),
    **{f"--{name}": (name, RANKS) for name in ("dp", "tp")},
}
"""Option of the command line -> the knob that says the same, and what it can be set to."""


def draw(advice: list[Change]) -> None:
    """A button for each of the changes that save the most, of those that knobs can make."""
    found = [(each, settings) for each in advice if (settings := settings_of(each.options)) is not None][:MOST]
    if not found:
        return
    st.markdown("**What would help**")
    with st.container(horizontal=True):
        for change, settings in found:
            end = "" if change.fits is None else ", fits" if change.fits else ", still too much"
            st.button(
                f"{change.name}: {binary(change.peak)}{end}",
                key=f"apply {change.options}",
                on_click=_apply,
                args=(settings,),
                help=f"Saves {binary(change.saved)}; {change.flops:+.0%} FLOPs, {change.gpus:,} GPU(s)",
            )


def settings_of(options: str) -> dict[str, Any] | None:
    """Knob -> value of the options of a change; None where one of them has no knob that takes it."""
    words = shlex.split(options)
    found: dict[str, Any] = {}
    for option, word in zip(words[::2], words[1::2], strict=True):
        key, values = KNOBS.get(option, ("", ()))
        value = next((each for each in values if f"{each}" == word), None)
        if value is None:
            return None
        found[key] = value
    return found


def _apply(settings: dict[str, Any]) -> None:
    for key, value in settings.items():
        st.session_state[key] = value
