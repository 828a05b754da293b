"""How experts' tokens are sent to their ranks, as Megatron-Core's flags and NeMo's settings say it.

Source: megatron/training/arguments.py and megatron/core/transformer/transformer_config.py (core_r0.13.0): `allgather`,
the usual, `alltoall`, and `flex`, which with DeepEP sends a token once to each rank that holds experts of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calc.plan.export.settings import one_of
from calc.spec.run import Run


def dispatcher(run: Run) -> str | None:
    """That which sends as the stack's time has it, None where nothing is sent; `flex` goes with DeepEP."""
    return "flex" if run.ep > 1 else None


def unread_dispatcher(found: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    """The name where it says what no time is told by: a plain all-to-all, for which one to each rank stands.
    Errors: Refused for a dispatcher of which nothing is described."""
    return one_of(found, name, {"flex": (), "alltoall": (name,)}, "flex", where)
