"""Seconds: from the tree of ops and a device, measured or only published, to the time of a step and of a token."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calc.predict.backends import Expected as Expected
    from calc.predict.backends import attention_seconds as attention_seconds
    from calc.predict.kernel import Kernel as Kernel
    from calc.predict.kernel import pass_bytes as pass_bytes
    from calc.predict.plans import Plans as Plans
    from calc.predict.plans import step_times as step_times
    from calc.predict.predicting import predict as predict
    from calc.predict.prediction import Interval as Interval
    from calc.predict.prediction import Prediction as Prediction
    from calc.predict.prediction import Row as Row
    from calc.predict.profile import Profile as Profile
    from calc.predict.profile import read_profile as read_profile
    from calc.predict.roofs import Point as Point
    from calc.predict.roofs import Roof as Roof
    from calc.predict.roofs import roof as roof
    from calc.predict.roofs import roofline as roofline
    from calc.predict.single import attention as attention
    from calc.predict.single import decode_attention as decode_attention
    from calc.predict.single import exchange as exchange
    from calc.predict.single import kernel_seconds as kernel_seconds
    from calc.predict.single import matmul as matmul
    from calc.predict.single import pass_over as pass_over
    from calc.predict.speed import Speed as Speed
    from calc.predict.speed import speed_of as speed_of
    from calc.predict.timing import Timing as Timing

_HOME = {
    "Expected": "backends",
    "Interval": "prediction",
    "Kernel": "kernel",
    "Plans": "plans",
    "Point": "roofs",
    "Prediction": "prediction",
    "Profile": "profile",
    "Roof": "roofs",
    "Row": "prediction",
    "Speed": "speed",
    "Timing": "timing",
    "attention": "single",
    "attention_seconds": "backends",
    "exchange": "single",
    "decode_attention": "single",
    "kernel_seconds": "single",
    "matmul": "single",
    "pass_bytes": "kernel",
    "pass_over": "single",
    "predict": "predicting",
    "read_profile": "profile",
    "roof": "roofs",
    "roofline": "roofs",
    "speed_of": "speed",
    "step_times": "plans",
}
"""Public name -> the module that holds it."""

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll] (the block above says it to pyright)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'calc.predict' has no attribute {name!r}")
    return getattr(import_module(f"calc.predict.{_HOME[name]}"), name)
