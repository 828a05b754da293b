"""What the models of attention kernels share: physics with fitted constants, times a learned rest, within limits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Node
from calc.time.models.limits import Limits
from calc.time.models.questions import Shape
from calc.time.models.residual import Column, Residual, Spread

Constant = Annotated[float, Field(ge=-50, le=50)]
"""On a scale of logarithms: beyond these no device is, and exponentials overflow."""
PRIOR_SPREAD = Spread(
    n=0,
    mape=0.25,
    median_ape=0.2,
    probabilities=(0.005, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.995),
    quantiles=(-1.2, -0.8, -0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 1.2),
)
"""Of a model that was fitted to nothing on its device."""


MOST_POINTS = 300
"""That constants are fitted to; of more, evenly chosen ones. A dozen constants gain nothing from others."""
TYPICAL_WIDTHS = (64.0, 256.0)
"""Of heads, the narrowest and the widest that typical slopes are of."""


ROWS = 4096
"""Launches that are timed at once."""

FEWEST_LEARNED = 30
"""Of fewer points nothing is learned beyond the constants of physics."""


class Terms(NamedTuple):
    """What physics says of n launches, in seconds: compute, memory and launch are parts of `seconds`, which overlap;
    no launch can take less than `least`. features: what a residual may look at."""

    seconds: Column
    compute: Column
    memory: Column
    launch: Column
    least: Column
    features: dict[str, Column]


CARRIED = 0.7
"""Part of a learned log-ratio that holds on cores of another design: the slope of what physics leaves over on one
device on what was learned of it on another, in the mean over five groups of measured devices, each left out with its
twin (0.55 to 0.91; of any four of them 0.67 to 0.76). Libraries choose other kernels there."""


class Learned(Node):
    """Fitted constants of one kernel on one device in one number format.

    kernel_source: what ran (a kernel, of which library or framework). points: launches that it was fitted to, 0 for
    none. widths: of heads that were among them. constants: by name, as `typical` lists them, on the scale that is
    fitted (mostly logarithms). spread: of launches that were not fitted to, None where that is not known.
    """

    typical: ClassVar[dict[str, float]] = {}
    cycles: ClassVar[tuple[str, ...]] = ()
    limits: Limits
    kernel_source: str = ""
    points: int = 0
    widths: tuple[float, ...] = ()
    constants: dict[str, Constant]
    residual: Residual | None = None
    spread: Spread | None = None

    @model_validator(mode="after")
    def _known(self) -> Self:
        if lacking := self.typical.keys() - self.constants.keys():
            raise Refused("constants", f"one named {min(lacking)}", f"{len(self.constants)} others")
        return self

    @classmethod
    def prior(cls, limits: Limits, kernel_source: str = "") -> Self:
        """The model of a device that nothing was measured on: typical constants."""
        return cls(limits=limits, kernel_source=kernel_source, constants=dict(cls.typical))

    def physics(self, shape: Shape) -> Terms:
        """What physics alone says of the launches in `shape`."""
        raise NotImplementedError

    def wide(self, shape: Shape) -> Column:
        """By how many doublings heads are wider than 128, as slopes of constants are asked: what is narrower or wider
        than all heads that were measured reaches what the nearest of them do, of which slopes say nothing. Slopes of
        one width, or of none, are typical ones, of `TYPICAL_WIDTHS`."""
        import numpy as np

        known = self.widths if len(self.widths) > 1 else (*TYPICAL_WIDTHS, *self.widths)
        return np.log2(np.clip(shape["d_head"], min(known), max(known)) / 128)

    def candidates(self) -> Iterable[Self]:
        """This model with each of the structures (sizes of tiles and the like) that fitting may choose from."""
        raise NotImplementedError

    def predicted(self, shape: Shape) -> Column:
        """Seconds of the launches in `shape`: physics, times what was learned, never below what physics allows."""
        import numpy as np

        rows = len(next(iter(shape.values())))
        parts = [self._some(_rows(shape, slice(start, start + ROWS))) for start in range(0, rows, ROWS)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _some(self, shape: Shape) -> Column:
        """Seconds of so few launches that all that is worked out of them stays in a core's cache."""
        import numpy as np

        terms = self.physics(shape)
        if self.residual is None:
            return np.maximum(terms.seconds, terms.least)
        return np.maximum(terms.seconds * np.exp(self.residual.log_ratio(terms.features)), terms.least)

    def moved(self, origin: Limits, target: Limits, clock: float = 1.0, alike: bool = True, cycle: float = 1.0) -> Self:
        """This model on a device of other limits: constants are parts of limits, or times that clocks set, and features
        of the residual are counts and ratios. `origin`: the published limits of the device that it
        was fitted on, to which its own limits are in the same ratio as they will be to `target`. clock: that of the
        target's cores under load over the origin's, beyond what the two peaks say. alike: whether both have cores of
        one design; to others `CARRIED` of the residual goes along. cycle: how long one of the target's cores is by
        published clocks, over the origin's. A cache whose size is not known is taken to be as large as the origin's."""
        import math

        limits = target.model_copy(
            update={
                "peak": self.limits.peak * target.peak / origin.peak,
                "bandwidth": self.limits.bandwidth * target.bandwidth / origin.bandwidth,
                "l2": target.l2 or self.limits.l2,
            }
        )
        own = {name: self.constants[name] + math.log(cycle) for name in self.cycles}
        if "cache" in self.constants and origin.cores and target.cores:
            fed = target.bandwidth / target.cores * cycle / (origin.bandwidth / origin.cores)
            own["cache"] = min(self.constants["cache"] + math.log(fed), max(self.constants["cache"], 0.0))
        residual = self.residual if alike or self.residual is None else self.residual.scaled(CARRIED)
        return self.model_copy(update={"limits": limits, "constants": self.constants | own, "residual": residual})

    def interval(self, level: float) -> tuple[float, float]:
        """Factors (low, high) on a predicted time between which `level` of measured times lie."""
        return (self.spread or PRIOR_SPREAD).interval(level)


M = TypeVar("M", bound=Learned)


MOST_JOINED = 0.5
"""Part of the shorter of two equal times that `joined` adds at most: with more, a longer one could come out shorter."""


def joined(one: Column, other: Column, sharp: float) -> Column:
    """Seconds of two kinds of work that overlap: the longer, and `sharp` of the shorter where they are equal, falling
    with the cube of their ratio. It grows with both."""
    import numpy as np

    longer, shorter = np.maximum(one, other), np.minimum(one, other)
    ratio = shorter / longer
    return longer + min(sharp, MOST_JOINED) * shorter * ratio * ratio


MOST_REACHED = 0.95
"""Part of the peak that no kernel is expected beyond: an H20, whose board has watts to spare, reaches 0.945 in fp8
products (98 of 100 are slower) and 0.956 in long prompts (alibaba/InferSim f2293dab, Apache-2.0)."""


def at_clock(log_part: float, clock: float) -> float:
    """The log of the part of a peak that is reached where cores run so many times as fast as the peaks say."""
    import math

    return min(log_part + math.log(clock), max(log_part, math.log(MOST_REACHED)))


def cached_bytes(limits: Limits, nbytes: Column, log_time: float, log_size: float, log_edge: float = 1.4) -> Column:
    """Seconds a byte where kernels are called again and again: those of memory, and where all operands fit the shared
    cache `exp(log_time)` of them. log_size: part of the cache that holds operands; log_edge: steepness of its end."""
    import numpy as np

    per_byte = np.full_like(nbytes, 1 / limits.bandwidth)
    if not limits.l2:
        return per_byte
    room = limits.l2 * np.exp(log_size)
    cached = 1 / (1 + (nbytes / room) ** np.exp(np.minimum(log_edge, 2.5)))
    return per_byte * (1 + cached * (np.exp(log_time) - 1))


def part(logit: Any) -> Any:
    """A number between 0 and 1, of any number."""
    import numpy as np

    return 1 / (1 + np.exp(-logit))


def fit_learned(start: M, shape: Shape, seconds: Column, seed: int = 0) -> M:
    """`start` fitted to all points, with a spread that is cross-validated: constants and residual are fitted five times
    more, each time without a fifth."""
    import numpy as np

    from calc.time.models.boosting import spread

    best = fit_once(start, shape, seconds, seed)
    ratio = np.zeros(len(seconds))
    fold = np.random.default_rng(seed).permutation(len(seconds)) % 5
    for held in (fold == number for number in range(min(5, len(seconds)))):
        fitted, of_fitted = _rows(shape, ~held), seconds[~held]
        model = _learn(_constants(best, fitted, of_fitted)[0], fitted, of_fitted, seed)
        ratio[held] = np.log(seconds[held] / model.predicted(_rows(shape, held)))
    return best.model_copy(update={"spread": spread(ratio)})


def fit_once(start: M, shape: Shape, seconds: Column, seed: int = 0) -> M:
    """`start` with the structure, the constants and the residual that come nearest to `seconds`, and no spread."""
    start = start.model_copy(update={"points": len(seconds), "spread": None, "widths": _widths(shape)})
    fits = [_constants(candidate, shape, seconds) for candidate in start.candidates()]
    best = min(fits, key=lambda fit: fit[1])[0]
    return _learn(best, shape, seconds, seed)


def _widths(shape: Shape) -> tuple[float, ...]:
    """The widths of heads in a shape, none where it has no heads."""
    return tuple(sorted(set(map(float, shape["d_head"])))) if "d_head" in shape else ()


def _rows(shape: Shape, which: Any) -> Shape:
    return {name: column[which] for name, column in shape.items()}


def _learn(model: M, shape: Shape, seconds: Column, seed: int) -> M:
    """`model` with the residual that its own physics leaves over, where there are points enough to learn one from."""
    import numpy as np

    from calc.time.models.boosting import fit_residual

    if len(seconds) < FEWEST_LEARNED:
        return model
    terms = model.physics(shape)
    residual = fit_residual(terms.features, np.log(seconds / terms.seconds), seed)
    return model.model_copy(update={"residual": residual})


def _constants(model: M, shape: Shape, seconds: Column) -> tuple[M, float]:
    """`model` with the constants that make the log-ratios smallest, and the cost of what is left.

    Each constant is pulled gently to where it started, so that points which say nothing of it leave it there.
    """
    import numpy as np
    from scipy.optimize import least_squares

    if len(seconds) > MOST_POINTS:
        every = -(-len(seconds) // MOST_POINTS)
        shape, seconds = {name: column[::every] for name, column in shape.items()}, seconds[::every]
    names = list(model.constants)
    start = np.array([model.constants[name] for name in names])
    pull = 0.05 * min(1.0, (len(seconds) / 300) ** 0.5)

    def errors(values: Column) -> Column:
        trial = model.model_copy(update={"constants": dict(zip(names, values, strict=True))})
        return np.append(np.log(trial.physics(shape).seconds / seconds), pull * (values - start))

    # Outliers beyond 10 % pull in proportion, not in square.
    found = least_squares(errors, start, loss="soft_l1", f_scale=0.1, max_nfev=40, diff_step=1e-3)
    constants = {name: float(value) for name, value in zip(names, found.x, strict=True)}
    return model.model_copy(update={"constants": constants, "residual": None}), float(found.cost)
