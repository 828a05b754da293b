"""The size a model should have: for compute, parameters, tokens, a loss, GPU time or money."""

from __future__ import annotations

from calc.optimum.answer import optimal
from calc.optimum.every_law import optimal_all
from calc.optimum.judgement import Judgement, judge
from calc.optimum.prediction import Prediction, loss
from calc.optimum.question import Optimum
from calc.optimum.shapes import Shape, shapes

__all__ = ["Judgement", "Optimum", "Prediction", "Shape", "judge", "loss", "optimal", "optimal_all", "shapes"]
