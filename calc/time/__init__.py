"""Seconds: from the tree of ops and a device, measured or only published, to the time of a step and of a token."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calc.time.attention_calls.backends import Expected as Expected
    from calc.time.attention_calls.backends import attention_seconds as attention_seconds
    from calc.time.device.profile import Profile as Profile
    from calc.time.device.profile import read_profile as read_profile
    from calc.time.device.speed import Speed as Speed
    from calc.time.device.speed_of import speed_of as speed_of
    from calc.time.kernels.kernel import Kernel as Kernel
    from calc.time.kernels.kernel import pass_bytes as pass_bytes
    from calc.time.kernels.single_kernel import attention_kernel as attention_kernel
    from calc.time.kernels.single_kernel import decode_attention as decode_attention
    from calc.time.kernels.single_kernel import exchange as exchange
    from calc.time.kernels.single_kernel import kernel_seconds as kernel_seconds
    from calc.time.kernels.single_kernel import matmul as matmul
    from calc.time.kernels.single_kernel import pass_over as pass_over
    from calc.time.kernels.timing import Timing as Timing
    from calc.time.step.plans import Plans as Plans
    from calc.time.step.plans import step_times as step_times
    from calc.time.step.predicting import predict as predict
    from calc.time.step.prediction import Interval as Interval
    from calc.time.step.prediction import Prediction as Prediction
    from calc.time.step.prediction import Row as Row
    from calc.time.step.roofline import Point as Point
    from calc.time.step.roofline import Roof as Roof
    from calc.time.step.roofline import roof as roof
    from calc.time.step.roofline import roofline as roofline
    from calc.time.step.waterfall import Bar as Bar
    from calc.time.step.waterfall import waterfall as waterfall

_HOME = {
    "Bar": "step.waterfall",
    "Expected": "attention_calls.backends",
    "Interval": "step.prediction",
    "Kernel": "kernels.kernel",
    "Plans": "step.plans",
    "Point": "step.roofline",
    "Prediction": "step.prediction",
    "Profile": "device.profile",
    "Roof": "step.roofline",
    "Row": "step.prediction",
    "Speed": "device.speed",
    "Timing": "kernels.timing",
    "attention_kernel": "kernels.single_kernel",
    "attention_seconds": "attention_calls.backends",
    "exchange": "kernels.single_kernel",
    "decode_attention": "kernels.single_kernel",
    "kernel_seconds": "kernels.single_kernel",
    "matmul": "kernels.single_kernel",
    "pass_bytes": "kernels.kernel",
    "pass_over": "kernels.single_kernel",
    "predict": "step.predicting",
    "read_profile": "device.profile",
    "roof": "step.roofline",
    "roofline": "step.roofline",
    "speed_of": "device.speed_of",
    "step_times": "step.plans",
    "waterfall": "step.waterfall",
}
"""Public name -> the module that holds it."""

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll] (the block above says it to pyright)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'calc.time' has no attribute {name!r}")
    return getattr(import_module(f"calc.time.{_HOME[name]}"), name)
