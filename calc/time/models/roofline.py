"""Kernels whose time is arithmetic against bytes: a launch, both overlapping, steps that wait for one another, and a
learned rest. What a kind of kernel computes and moves stands in its own file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, NamedTuple, Self

from calc.time.models.learned import Learned, Terms, at_clock, cached_bytes, fit_learned, joined
from calc.time.models.limits import Limits
from calc.time.models.questions import Shape
from calc.time.models.residual import Column


class Work(NamedTuple):
    """What n launches have to do: FLOPs that they compute (padding of tiles among them), bytes, steps of which each
    waits for the one before it. flops_least: without padding. features: counts and ratios, no seconds."""

    flops: Column
    bytes: Column
    steps: Column
    flops_least: Column
    features: dict[str, Column]


class Roofline(Learned):
    """Fitted constants of one kernel that is told by its work alone."""

    typical: ClassVar[dict[str, float]] = {
        "launch": 2.0,  # log microseconds
        "peak": -0.7,  # log part of the peak
        "bandwidth": -0.3,  # log part of the bandwidth
        "cache": -0.4,  # log time of a byte out of the shared cache over one out of memory
        "cache_size": -0.7,  # log part of that cache that holds operands from one call to the next
        "step": -3.0,  # log microseconds of one of the steps that wait for one another
        "sharp": -1.0,  # log of the part by which compute and memory add up where they are equal
    }

    @classmethod
    def fit(cls, shape: Shape, seconds: Column, limits: Limits, kernel_source: str = "", seed: int = 0) -> Self:
        """The model of `seconds` measured at `shape`, columns as `work` reads them."""
        return fit_learned(cls.prior(limits, kernel_source), shape, seconds, seed)

    def moved(self, origin: Limits, target: Limits, clock: float = 1.0, alike: bool = True, cycle: float = 1.0) -> Self:
        """This model on a device of other limits, whose cores reach more of their peak where their clock is faster."""
        own = {"peak": at_clock(self.constants["peak"], clock)}
        there = super().moved(origin, target, clock, alike, cycle)
        return there.model_copy(update={"constants": there.constants | own})

    def candidates(self) -> Iterable[Self]:
        """This model alone."""
        return (self,)

    def work(self, shape: Shape) -> Work:
        """What the launches in `shape` have to do."""
        raise NotImplementedError

    def physics(self, shape: Shape) -> Terms:
        """What physics alone says of the launches in `shape`."""
        import numpy as np

        c, work = self.constants, self.work(shape)
        compute = work.flops / (np.exp(c["peak"]) * self.limits.peak)
        per_byte = cached_bytes(self.limits, work.bytes, c["cache"], c["cache_size"])
        memory = work.bytes * per_byte / np.exp(c["bandwidth"])
        launch = np.full_like(memory, np.exp(c["launch"]) * 1e-6)
        steps = work.steps * np.exp(c["step"]) * 1e-6
        seconds = launch + steps + joined(compute, memory, float(np.exp(c["sharp"])))
        streamed = np.maximum(work.bytes - (self.limits.l2 or np.inf), 0.0)
        least = np.maximum(work.flops_least / self.limits.peak, streamed / self.limits.bandwidth)
        features = work.features | {
            "bound": np.log((compute + 1e-12) / memory),
            "launched": np.log(seconds / launch),
            "waited": steps / seconds,
            "cached": np.log(work.bytes / (self.limits.l2 or 1.0)),
        }
        return Terms(seconds, compute, memory, launch, least, features)
