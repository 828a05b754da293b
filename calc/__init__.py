"""Envelope's calculator: what a transformer costs, exactly, with the formula behind every number.

    >>> import calc
    >>> spec = calc.load_model("gpt2")
    >>> calc.estimate(spec, "params").value
    124439808

Names are imported when first used: importing this package loads neither torch, sympy, numpy, pandas nor scipy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calc.architectures import from_config
    from calc.conventions import compare, flops
    from calc.errors import Refused
    from calc.estimation import Estimate, estimate
    from calc.explanation import Explanation, explain
    from calc.load import Load
    from calc.models import load_model, preset_names
    from calc.quantities.flops import Flops
    from calc.quantities.kv_cache import KvCache, kv_cache
    from calc.quantities.parameters import parameter_shapes, parameters
    from calc.query import Query
    from calc.reading import sizes_of, symbolic, with_sizes
    from calc.solution import NoSolution, Solution, solve
    from calc.spec import ModelSpec, Shorthand
    from calc.summary import Report, report
    from calc.sweeping import sweep

_HOME = {
    "Estimate": "calc.estimation",
    "Explanation": "calc.explanation",
    "Flops": "calc.quantities.flops",
    "KvCache": "calc.quantities.kv_cache",
    "Load": "calc.load",
    "ModelSpec": "calc.spec.model",
    "NoSolution": "calc.solution",
    "Query": "calc.query",
    "Refused": "calc.errors",
    "Report": "calc.summary",
    "Shorthand": "calc.spec.shorthand",
    "Solution": "calc.solution",
    "compare": "calc.conventions",
    "estimate": "calc.estimation",
    "explain": "calc.explanation",
    "flops": "calc.conventions",
    "from_config": "calc.architectures",
    "kv_cache": "calc.quantities.kv_cache",
    "load_model": "calc.models",
    "parameter_shapes": "calc.quantities.parameters",
    "parameters": "calc.quantities.parameters",
    "preset_names": "calc.models",
    "report": "calc.summary",
    "sizes_of": "calc.reading",
    "solve": "calc.solution",
    "sweep": "calc.sweeping",
    "symbolic": "calc.reading",
    "with_sizes": "calc.reading",
}

__all__ = [
    "Estimate",
    "Explanation",
    "Flops",
    "KvCache",
    "Load",
    "ModelSpec",
    "NoSolution",
    "Query",
    "Refused",
    "Report",
    "Shorthand",
    "Solution",
    "compare",
    "estimate",
    "explain",
    "flops",
    "from_config",
    "kv_cache",
    "load_model",
    "parameter_shapes",
    "parameters",
    "preset_names",
    "report",
    "sizes_of",
    "solve",
    "sweep",
    "symbolic",
    "with_sizes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'calc' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
