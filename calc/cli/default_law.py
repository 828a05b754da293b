"""The law that answers where the command line names none: of experts, the nearest that knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calc.cli.run_options import given
from calc.optimum.question import ROUTING
from calc.optimum.routing import nearest
from calc.output.notes import remark
from calc.spec import ModelSpec


def chosen(law: str, spec: ModelSpec | None, words: Mapping[str, Any]) -> str:
    """`law`, unless it is the default and the question is one of experts; then it says which answers."""
    if given("law"):
        return law
    other = nearest(spec, {name: words.get(name) for name in ROUTING})
    if other is None:
        return law
    remark(f"--law {other}, since {law} knows no experts")
    return other
