"""Envelope's calculator: what a transformer costs, exactly, with the formula behind every number.

    >>> import calc
    >>> spec = calc.load_model("gpt2")
    >>> calc.estimate(spec, "params").value
    124439808

What cannot be read exactly raises `Refused`, in one line; a ModelSpec or Shorthand put together by hand raises
pydantic's ValidationError instead.

Names are imported when first used: importing this package loads neither torch, sympy, numpy, pandas nor scipy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # For type checkers, which read no table; `as` marks what is public.
    from calc import conventions as _conventions
    from calc import laws as _laws
    from calc import symbols as _symbols
    from calc.architectures import from_config as from_config
    from calc.architectures.families import FAMILIES as FAMILIES
    from calc.architectures.models import load_model as load_model
    from calc.architectures.models import preset_names as preset_names
    from calc.architectures.models import preset_title as preset_title
    from calc.ask import registry as _registry
    from calc.ask.estimate import Estimate as Estimate
    from calc.ask.estimate import estimate as estimate
    from calc.ask.explain import Explanation as Explanation
    from calc.ask.explain import explain as explain
    from calc.ask.grid import Grid as Grid
    from calc.ask.grid import sweep_grid as sweep_grid
    from calc.ask.quantity import Quantity as Quantity
    from calc.ask.registry import QUANTITIES as QUANTITIES
    from calc.ask.report import Report as Report
    from calc.ask.report import report as report
    from calc.ask.solution import Candidate as Candidate
    from calc.ask.solution import NoSolution as NoSolution
    from calc.ask.solution import Solution as Solution
    from calc.ask.solve import solve as solve
    from calc.ask.sweep import sweep as sweep
    from calc.conventions import CONVENTIONS as CONVENTIONS
    from calc.conventions import Comparison as Comparison
    from calc.conventions import Convention as Convention
    from calc.conventions import compare as compare
    from calc.conventions import flops as flops
    from calc.dtypes import CACHE_DTYPES as CACHE_DTYPES
    from calc.dtypes import DTYPES as DTYPES
    from calc.dtypes import Dtype as Dtype
    from calc.errors import Refused as Refused
    from calc.fitting import runs as _runs
    from calc.fitting.envelope import fit_envelope as fit_envelope
    from calc.fitting.fit import Fit as Fit
    from calc.fitting.fit import fit as fit
    from calc.fitting.fit import tournament as tournament
    from calc.fitting.frontier import FrontierFit as FrontierFit
    from calc.fitting.isoflop import fit_isoflop as fit_isoflop
    from calc.fitting.published import LawFit as LawFit
    from calc.fitting.published import fit_law as fit_law
    from calc.fitting.runs import Runs as Runs
    from calc.laws import LAWS as LAWS
    from calc.laws import Law as Law
    from calc.optimum import Judgement as Judgement
    from calc.optimum import Optimum as Optimum
    from calc.optimum import Prediction as Prediction
    from calc.optimum import Shape as Shape
    from calc.optimum import judge as judge
    from calc.optimum import loss as loss
    from calc.optimum import optimal as optimal
    from calc.optimum import optimal_all as optimal_all
    from calc.optimum import shapes as shapes
    from calc.plan import answer as _answer
    from calc.plan.planning import search_plans as search_plans
    from calc.quantities.flops import Flops as Flops
    from calc.quantities.kv_cache import KvCache as KvCache
    from calc.quantities.kv_cache import kv_cache as kv_cache
    from calc.quantities.parameters import parameter_shapes as parameter_shapes
    from calc.quantities.parameters import parameters as parameters
    from calc.spec import ModelSpec as ModelSpec
    from calc.spec import Shorthand as Shorthand
    from calc.spec.catalogue import device_names as device_names
    from calc.spec.catalogue import load_device as load_device
    from calc.spec.hardware import Device as Device
    from calc.spec.load import Load as Load
    from calc.spec.resizing import sizes_of as sizes_of
    from calc.spec.resizing import symbolic as symbolic
    from calc.spec.resizing import with_sizes as with_sizes
    from calc.spec.run import CHECKPOINTING as CHECKPOINTING
    from calc.spec.run import PHASES as PHASES
    from calc.spec.run import WINDOW_READINGS as WINDOW_READINGS
    from calc.spec.run import Run as Run
    from calc.spec.run import common_context as common_context
    from calc.spec.run import common_length as common_length
    from calc.symbols import SYMBOLS as SYMBOLS
    from calc.symbols import Symbol as Symbol
    from calc.time.device.profile import read_profile as read_profile
    from calc.time.step import predicting as _predicting
    from calc.time.step import prediction as _prediction
    from calc.time.step.roofline import roofline as roofline
    from calc.tracing.capture import capture as capture
    from calc.units import parse_amount as parse_amount
    from calc.workers.workers import Workers as Workers

    find_convention = _conventions.find
    find_law = _laws.find
    find_quantity = _registry.find
    find_symbol = _symbols.describe
    predict_time = _predicting.predict
    read_runs = _runs.read
    TimePrediction = _prediction.Prediction
    PlanAnswer = _answer.Answer

_HOME = {
    "CACHE_DTYPES": "calc.dtypes.CACHE_DTYPES",
    "CHECKPOINTING": "calc.spec.run.CHECKPOINTING",
    "CONVENTIONS": "calc.conventions.CONVENTIONS",
    "Candidate": "calc.ask.solution.Candidate",
    "Comparison": "calc.conventions.Comparison",
    "Convention": "calc.conventions.Convention",
    "DTYPES": "calc.dtypes.DTYPES",
    "Device": "calc.spec.hardware.Device",
    "Dtype": "calc.dtypes.Dtype",
    "Estimate": "calc.ask.estimate.Estimate",
    "Explanation": "calc.ask.explain.Explanation",
    "FAMILIES": "calc.architectures.families.FAMILIES",
    "Fit": "calc.fitting.fit.Fit",
    "Flops": "calc.quantities.flops.Flops",
    "FrontierFit": "calc.fitting.frontier.FrontierFit",
    "KvCache": "calc.quantities.kv_cache.KvCache",
    "Grid": "calc.ask.grid.Grid",
    "Judgement": "calc.optimum.Judgement",
    "LAWS": "calc.laws.LAWS",
    "Law": "calc.laws.Law",
    "LawFit": "calc.fitting.published.LawFit",
    "Load": "calc.spec.load.Load",
    "ModelSpec": "calc.spec.ModelSpec",
    "NoSolution": "calc.ask.solution.NoSolution",
    "Optimum": "calc.optimum.Optimum",
    "PlanAnswer": "calc.plan.answer.Answer",
    "PHASES": "calc.spec.run.PHASES",
    "Prediction": "calc.optimum.Prediction",
    "QUANTITIES": "calc.ask.registry.QUANTITIES",
    "Quantity": "calc.ask.quantity.Quantity",
    "Refused": "calc.errors.Refused",
    "Report": "calc.ask.report.Report",
    "Run": "calc.spec.run.Run",
    "Runs": "calc.fitting.runs.Runs",
    "SYMBOLS": "calc.symbols.SYMBOLS",
    "Shorthand": "calc.spec.Shorthand",
    "Shape": "calc.optimum.Shape",
    "Solution": "calc.ask.solution.Solution",
    "Symbol": "calc.symbols.Symbol",
    "TimePrediction": "calc.time.step.prediction.Prediction",
    "Workers": "calc.workers.workers.Workers",
    "WINDOW_READINGS": "calc.spec.run.WINDOW_READINGS",
    "common_context": "calc.spec.run.common_context",
    "common_length": "calc.spec.run.common_length",
    "capture": "calc.tracing.capture.capture",
    "compare": "calc.conventions.compare",
    "device_names": "calc.spec.catalogue.device_names",
    "estimate": "calc.ask.estimate.estimate",
    "explain": "calc.ask.explain.explain",
    "find_convention": "calc.conventions.find",
    "find_law": "calc.laws.find",
    "find_quantity": "calc.ask.registry.find",
    "find_symbol": "calc.symbols.describe",
    "fit": "calc.fitting.fit.fit",
    "fit_envelope": "calc.fitting.envelope.fit_envelope",
    "fit_isoflop": "calc.fitting.isoflop.fit_isoflop",
    "fit_law": "calc.fitting.published.fit_law",
    "flops": "calc.conventions.flops",
    "from_config": "calc.architectures.from_config",
    "judge": "calc.optimum.judge",
    "kv_cache": "calc.quantities.kv_cache.kv_cache",
    "load_device": "calc.spec.catalogue.load_device",
    "load_model": "calc.architectures.models.load_model",
    "loss": "calc.optimum.loss",
    "optimal": "calc.optimum.optimal",
    "optimal_all": "calc.optimum.optimal_all",
    "parameter_shapes": "calc.quantities.parameters.parameter_shapes",
    "parameters": "calc.quantities.parameters.parameters",
    "parse_amount": "calc.units.parse_amount",
    "predict_time": "calc.time.step.predicting.predict",
    "preset_names": "calc.architectures.models.preset_names",
    "preset_title": "calc.architectures.models.preset_title",
    "read_profile": "calc.time.device.profile.read_profile",
    "read_runs": "calc.fitting.runs.read",
    "report": "calc.ask.report.report",
    "roofline": "calc.time.step.roofline.roofline",
    "search_plans": "calc.plan.planning.search_plans",
    "shapes": "calc.optimum.shapes",
    "sizes_of": "calc.spec.resizing.sizes_of",
    "solve": "calc.ask.solve.solve",
    "sweep": "calc.ask.sweep.sweep",
    "sweep_grid": "calc.ask.grid.sweep_grid",
    "symbolic": "calc.spec.resizing.symbolic",
    "tournament": "calc.fitting.fit.tournament",
    "with_sizes": "calc.spec.resizing.with_sizes",
}
"""Public name -> where it is."""

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll] (the block above says it to pyright)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'calc' has no attribute {name!r}")
    module, _, own = _HOME[name].rpartition(".")
    value = getattr(import_module(module), own)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
