"""Time of a collective between GPUs: measured curves of size, or the datasheet's link with a stated efficiency.

`bytes` is that of nccl-tests: what a rank holds after an all_gather, before a reduce_scatter, an all_reduce or an
all_to_all. Bus bandwidth is the rate that a link must sustain for it in a ring, bytes / seconds times 2 (n - 1) / n for
an all_reduce and (n - 1) / n for the others (NVIDIA nccl-tests, doc/PERFORMANCE.md); switches that add up (NVLS) can
pass a link's own rate in that convention.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.spec.fields import Node
from calc.time.models.learned import PRIOR_SPREAD
from calc.time.models.limits import Positive
from calc.time.models.residual import Column, Spread

Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"]
COLLECTIVES: tuple[Collective, ...] = get_args(Collective)

EFFICIENCY = 0.75
"""Bus bandwidth over the link's rate in one direction, large messages: NCCL 2.29 on 8 H100 reaches 0.70 to 0.75 in
all_gather, reduce_scatter and all_to_all (0.99 in all_reduce through the switches, which is not counted on); measured
by NVIDIA aiconfigurator 0.12, Apache-2.0."""

LATENCY = 5e-6
"""Seconds of the smallest message between two GPUs, and of each doubling of their number beyond; same source."""

OWN = 0.1
"""How strongly a number of GPUs is held at what is common to all numbers."""

LIKE = 0.3
"""How strongly its start and its rate are held at those of all numbers: they have the same links."""

STEP = 2.0
"""Ratio of neighbouring sizes at which a curve is kept."""


class Curve(Node):
    """Seconds between `gpus` GPUs at each of the model's sizes."""

    gpus: Annotated[int, Field(ge=1)]
    seconds: tuple[Positive, ...]


class CollectiveModel(Node):
    """One collective: `curves` by number of GPUs, measured at `sizes` bytes (of `itemsize` bytes an element).

    Without curves it rests on `link`, bytes/s of one GPU in one direction, at `efficiency`, after `latency` seconds.
    """

    op: str
    kernel_source: str = ""
    points: int = 0
    sizes: tuple[Positive, ...] = ()
    curves: tuple[Curve, ...] = ()
    link: Positive | None = None
    efficiency: Positive = EFFICIENCY
    latency: Annotated[float, Field(ge=0)] = LATENCY
    spread: Spread | None = None

    @model_validator(mode="after")
    def _whole(self) -> CollectiveModel:
        gpus = [curve.gpus for curve in self.curves]
        lengths = {len(curve.seconds) for curve in self.curves} - {len(self.sizes)}
        if lengths or list(self.sizes) != sorted(set(self.sizes)) or gpus != sorted(set(gpus)):
            raise Refused("curves", "seconds at each of the sizes, sizes and GPUs in rising order", self.op)
        _known(self.op)
        return self

    @classmethod
    def prior(cls, op: str, link: float) -> CollectiveModel:
        """The datasheet's word: `link` bytes/s of one GPU in one direction. Errors: Refused for an unknown `op`."""
        return cls(op=_known(op), link=link)

    @classmethod
    def fit(
        cls, op: str, gpus: Column, size: Column, seconds: Column, kernel_source: str = "", seed: int = 0
    ) -> CollectiveModel:
        """The curves of times measured between `gpus` GPUs at `size` bytes; the spread is cross-validated."""
        from calc.time.models.boosting import spread

        model, ratio = cls.cross_validated(op, gpus, size, seconds, kernel_source, seed)
        return model.model_copy(update={"spread": spread(ratio, few=True)})

    @classmethod
    def cross_validated(
        cls, op: str, gpus: Column, size: Column, seconds: Column, kernel_source: str = "", seed: int = 0
    ) -> tuple[CollectiveModel, Column]:
        """The curves, and of each row log(measured / predicted) by curves that a fifth with that row is left out of."""
        import numpy as np

        model = cls(op=_known(op), kernel_source=kernel_source, points=len(size))
        fold = np.random.default_rng(seed).permutation(len(size)) % 5
        ratio = np.zeros(len(size))
        for held in (fold == number for number in range(5)):
            found = _curves(model, gpus[~held], size[~held], seconds[~held], (gpus, size))
            ratio[held] = np.log(seconds[held] / found.seconds(size[held], gpus[held]))
        return _curves(model, gpus, size, seconds, (gpus, size)), ratio

    def seconds(self, bytes: Any, gpus: Any) -> Any:
        """Seconds of the collective of `bytes` between `gpus` GPUs; numbers give a float, arrays an array.

        Between two measured numbers of GPUs it is interpolated (both logarithms); messages above the largest measured
        keep its bandwidth, below the smallest its time; of more GPUs than were measured see `_of_more`.

        Errors: Refused for fewer than were measured.
        """
        import numpy as np

        if not self.link and not (self.curves and self.sizes):
            raise Refused("collective", "curves or a link", f"neither in {self.op}")
        size, count = np.broadcast_arrays(np.asarray(bytes, dtype=float), np.asarray(gpus, dtype=float))
        found = self._published(self.link, size, count) if self.link else self._measured(size, count)
        found = np.where((count > 1) & (size > 0), found, 0.0)
        return float(found) if size.ndim == 0 else found

    def knows(self, gpus: Column) -> Column:
        """Of how many GPUs it tells the seconds, for each number in a column."""
        if self.link:
            return gpus > 0
        known = [curve.gpus for curve in self.curves]
        return (gpus <= 1) | (gpus >= known[0])

    def interval(self, level: float) -> tuple[float, float]:
        """Factors (low, high) on a predicted time between which `level` of measured times lie."""
        return (self.spread or PRIOR_SPREAD).interval(level)

    def moved(self, from_link: float, to_link: float) -> CollectiveModel:
        """This model on links of another rate: large messages by the ratio, latency as it is."""
        if self.link:
            return self.model_copy(update={"link": self.link * to_link / from_link})
        curves = tuple(
            Curve(
                gpus=c.gpus, seconds=tuple(c.seconds[0] + (s - c.seconds[0]) * from_link / to_link for s in c.seconds)
            )
            for c in self.curves
        )
        return self.model_copy(update={"curves": curves, "spread": None})

    def _published(self, link: float, size: Column, count: Column) -> Column:
        import numpy as np

        steps = np.maximum(1, np.log2(np.maximum(count, 2)))
        return self.latency * steps + size * passes(self.op, count) / (self.efficiency * link)

    def _measured(self, size: Column, count: Column) -> Column:
        import numpy as np

        known = [curve.gpus for curve in self.curves]
        several = count[count > 1]
        if several.size and not (known and known[0] <= several.min()):
            words = f"{known[0]} or more, since fewer were not measured" if known else "none: nothing was measured"
            raise Refused(f"GPUs of {self.op}", words, f"{several.min():g}")
        where = np.log(np.maximum(size, self.sizes[0]))
        knots = np.log(self.sizes)
        beyond = np.maximum(0, where - knots[-1])
        logs = np.array([np.interp(where, knots, np.log(curve.seconds)) + beyond for curve in self.curves])
        place = np.interp(np.log(np.maximum(count, known[0])), np.log(known), np.arange(len(known)))
        low = np.minimum(place.astype(int), max(len(known) - 2, 0))
        high = np.minimum(low + 1, len(known) - 1)
        below, above = (np.take_along_axis(logs, index[None], axis=0)[0] for index in (low, high))
        seconds = np.exp(below + (place - low) * (above - below))
        return np.where(count > known[-1], self._of_more(seconds, count, known[-1]), seconds)

    def _of_more(self, seconds: Column, count: Column, most: int) -> Column:
        """Seconds between more GPUs than were measured, of those between the `most`: what a message of no size takes
        by the steps of a tree, the rest by what each link passes on."""
        import numpy as np

        start = np.minimum(self.curves[-1].seconds[0], seconds)
        steps = np.log2(np.maximum(count, 2)) / max(1.0, np.log2(most))
        return start * steps + (seconds - start) * passes(self.op, count) / passes(self.op, most)


def passes(op: str, gpus: Any) -> Any:
    """Bytes through each link over bytes of the message."""
    if op == "send":
        return 1.0
    return (2 if op == "all_reduce" else 1) * (gpus - 1) / gpus


def _known(op: str) -> str:
    if op not in COLLECTIVES:
        raise Refused("collective", f"one of {', '.join(COLLECTIVES)}", op)
    return op


def _curves(model: CollectiveModel, gpus: Column, size: Column, seconds: Column, span: Any) -> CollectiveModel:
    """`model` with one curve for each number of GPUs, straight between knots in both logarithms, that passes over late
    GPUs: they say nothing of other calls."""
    import numpy as np

    low, high = np.log(span[1].min()), np.log(span[1].max())
    knots = np.linspace(low, high, max(2, round((high - low) / np.log(STEP)) + 1))
    x, y, crossing = np.log(size), np.log(seconds), np.log(passes(model.op, gpus))
    counts = sorted(set(span[0].astype(int).tolist()))
    # A few sizes of one number say little of what the largest take: all numbers have the same links.
    common = _start_and_rate(x, y, crossing, np.array([y.min(), (y - x - crossing).min(), 0.0]), 0.05)
    constants = {
        count: _start_and_rate(x[rows], y[rows], crossing[rows], common, LIKE)
        for count, rows in ((count, gpus == count) for count in counts)
    }
    told = [_physics(constants[int(count)], *each) for count, *each in zip(gpus, x, crossing, strict=True)]
    rest = y - np.array(told)
    # Libraries change their ways at sizes that differ little by the number of GPUs: what is common to all of them, then
    # what each has of its own.
    heights = _heights(knots, x, rest, 0.05)
    curves = []
    for count in counts:
        rows = gpus == count
        own = _heights(knots, x[rows], rest[rows] - np.interp(x[rows], knots, heights), OWN)
        logs = _physics(constants[count], knots, np.log(passes(model.op, count))) + heights + own
        # A larger message is never faster, and a time above that of larger ones was a wait for something else.
        logs = np.minimum.accumulate(logs[::-1])[::-1]
        curves.append(Curve(gpus=count, seconds=tuple(float(s) for s in np.exp(logs))))
    return model.model_copy(update={"sizes": tuple(float(s) for s in np.exp(knots)), "curves": tuple(curves)})


def _heights(knots: Column, x: Column, rest: Column, pull: float) -> Column:
    """Heights at `knots` of the broken line through (x, rest), smooth where few sizes were measured and nothing beyond
    them; `pull`: how strongly they are held at nothing."""
    import numpy as np

    hats = np.stack([np.interp(x, knots, unit) for unit in np.eye(len(knots))], axis=1)
    pulls = np.concatenate([0.1 * np.diff(np.eye(len(knots)), 2, axis=0), pull * np.eye(len(knots))])
    weight, heights = np.ones(len(x)), np.zeros(len(knots))
    for _ in range(20):
        system = np.concatenate([hats * weight[:, None], pulls])
        heights = np.linalg.lstsq(system, np.append(rest * weight, np.zeros(len(pulls))), rcond=None)[0]
        weight = 1 / np.sqrt(np.maximum(np.abs(rest - hats @ heights), 0.01) / 0.01)
    return heights


def _physics(constants: Column, x: Column, crossing: Column) -> Column:
    """Log seconds at log bytes, of which exp(crossing) pass each link: the norm of a start and of those bytes over a
    rate, whose power is the third constant."""
    import numpy as np

    start, per_byte, power = constants[0], constants[1], 1 + np.exp(np.clip(constants[2], -3, 2))
    return np.logaddexp(start * power, (per_byte + crossing + x) * power) / power


def _start_and_rate(x: Column, y: Column, crossing: Column, first: Column, pull: float) -> Column:
    """The constants of `_physics` that come nearest to log seconds `y`, held at `first`."""
    import numpy as np
    from scipy.optimize import least_squares

    # A late GPU, beyond a tenth, pulls in proportion and not in square.
    return least_squares(
        lambda c: np.append(_physics(c, x, crossing) - y, pull * (c - first)), first, loss="soft_l1", f_scale=0.1
    ).x
