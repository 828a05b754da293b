"""Messages on stderr about what was asked."""

from __future__ import annotations

from collections.abc import Collection

import click

from calc.ask.registry import OF_INFERENCE, OF_TRAINING
from calc.cli.run_options import given
from calc.output.notes import remark
from calc.spec.run import Run

_SERVED = frozenset(OF_INFERENCE) - {"dtype"}  # which in training names the recipe


def unused(uses: Collection[str], named: str) -> None:
    """Name the options of a run that were given on the command line though `named` does not depend on them.

    uses: the fields of a Run that matter. An option set to "none" or 0 asks for nothing and is passed over.
    """
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        idle = name in Run.model_fields and name not in uses
        if idle and given(name) and context.params.get(name) not in ("none", 0):
            remark(f"{option.opts[0]} changes nothing in {named}")


def unused_in_mode(run: Run) -> None:
    """Name the options that were given though memory, in training or in inference, does not depend on them."""
    other = _SERVED if run.mode == "training" else OF_TRAINING
    for option in click.get_current_context().command.params:
        if option.name in other and given(option.name or ""):
            remark(f"{option.opts[0]} changes nothing in {run.mode}")


def undivided(run: Run) -> None:
    """Say so where a ZeRO stage has no ranks to divide anything among."""
    if run.zero and run.dp * run.cp == 1:
        remark(f"--zero {run.zero} divides nothing among one data-parallel rank; add --dp")
