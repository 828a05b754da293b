"""The roofline of a prediction: every op by its arithmetic intensity and the rate that it is expected to reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calc.errors import Refused
from calc.time.device.speed import Speed
from calc.time.kernels.kernel import Kernel, Send
from calc.time.kernels.timing import Bound
from calc.time.models.collective import passes
from calc.time.step.prediction import Prediction, Row
from calc.units import si


@dataclass(frozen=True, slots=True)
class Point:
    """All calls of one op in one direction.

    intensity: FLOPs a byte, each operand counted once. rate: FLOP/s. bandwidth: bytes/s, of a collective those of its
    message (nccl-tests' algorithm bandwidth). linked: bytes of a collective through each rank's link; None of what is
    no collective. share: of the step. running: seconds on the device, which are more than `seconds` where the host is
    waited for and this op is one of the long ones; rates are over the longer of the two.
    """

    path: str
    component: str
    function: str
    direction: str
    flops: float
    bytes: float
    seconds: float
    share: float
    bound: Bound
    running: float = 0.0
    linked: float | None = None

    @property
    def intensity(self) -> float:
        """FLOPs a byte."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def rate(self) -> float:
        """FLOP/s."""
        return self.flops / self._longer if self.seconds else 0.0

    @property
    def bandwidth(self) -> float:
        """Bytes/s."""
        return self.bytes / self._longer if self.seconds else 0.0

    @property
    def bus_bandwidth(self) -> float | None:
        """Bytes/s of a collective as nccl-tests' bus bandwidth, which compares with a link's rate whatever the number
        of ranks; None of what is no collective."""
        return self.linked / self._longer if self.linked is not None and self.seconds else None

    @property
    def bandwidth_text(self) -> str:
        """Bytes/s as people read them, of a collective through each rank's link."""
        bus = self.bus_bandwidth
        return si(self.bandwidth, "B/s") if bus is None else f"bus {si(bus, 'B/s')}"

    @property
    def _longer(self) -> float:
        return max(self.seconds, self.running)


@dataclass(frozen=True, slots=True)
class Roof:
    """The limits of a device: FLOP/s by number format, bytes/s; and where they meet, FLOPs a byte by format."""

    peaks: Mapping[str, float]
    bandwidth: float

    @property
    def ridges(self) -> dict[str, float]:
        """Arithmetic intensity from which on products can be the bound (Williams et al. 2009)."""
        return {dtype: peak / self.bandwidth for dtype, peak in self.peaks.items()}

    def attainable(self, dtype: str, intensity: float) -> float:
        """FLOP/s that an op of this many FLOPs a byte can reach at most, by the format of its products."""
        return min(self.peaks[dtype], self.bandwidth * intensity)

    def line(self, dtype: str, least: float, most: float) -> list[tuple[float, float]]:
        """(FLOPs a byte, FLOP/s) where the roof of a format begins, bends and ends, between two intensities."""
        bends = [each for each in (self.ridges[dtype],) if least < each < most]
        return [(each, self.attainable(dtype, each)) for each in (least, *bends, most)]


def roofline(prediction: Prediction) -> list[Point]:
    """Every op of a prediction with what it computes and moves, the ones that take the longest first."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in prediction.kernels:
        kernel = row.kernel
        if not row.timing.seconds:  # runs inside of another kernel, whose time holds it
            continue
        found.setdefault((kernel.path, kernel.function, kernel.direction), []).append(row)
    points = [_point(rows, prediction) for rows in found.values()]
    return sorted(points, key=lambda point: -point.seconds)


def roof(speed: Speed, kernels: tuple[Row, ...] = ()) -> Roof:
    """The limits of a device in the number formats that `kernels` compute in, or in all that are known."""
    formats = {row.kernel.dtype for row in kernels if row.kernel.flops} or set(speed.gemm)
    peaks = {}
    for dtype in sorted(formats):
        try:
            peaks[dtype] = speed.peak(dtype)
        except Refused:
            continue
    return Roof(peaks, speed.bandwidth)


def _point(rows: list[Row], prediction: Prediction) -> Point:
    kernel: Kernel = rows[0].kernel
    longest = max(rows, key=lambda row: row.seconds)
    repeated = [_repeated(row, prediction) for row in rows]
    return Point(
        path=kernel.path,
        component=kernel.component,
        function=kernel.function,
        direction=kernel.direction,
        flops=sum(row.kernel.flops * row.kernel.calls * n for row, n in zip(rows, repeated, strict=True)),
        bytes=sum(row.kernel.bytes * row.kernel.calls * n for row, n in zip(rows, repeated, strict=True)),
        seconds=sum(row.seconds for row in rows),
        share=sum(row.share for row in rows),
        bound="launch" if longest.waits else longest.timing.bound,
        running=sum(row.kernel.calls * row.timing.seconds * n for row, n in zip(rows, repeated, strict=True)),
        linked=_linked(rows, repeated),
    )


def _linked(rows: list[Row], repeated: list[float]) -> float | None:
    """Bytes of a collective through each link; None of what is none."""
    found: float | None = None
    for row, n in zip(rows, repeated, strict=True):
        kernel = row.kernel
        if isinstance(kernel.shape, Send):
            found = (found or 0.0) + kernel.bytes * kernel.calls * n * passes(kernel.shape.op, kernel.shape.ranks)
    return found


def _repeated(row: Row, prediction: Prediction) -> float:
    """How often a step repeats a kernel: where micro-batches do, its seconds hold all of them and its calls one."""
    if row.waits:
        return prediction.run.passes_a_step if row.kernel.direction in ("forward", "recomputed", "backward") else 1
    once = row.kernel.calls * row.timing.seconds
    return max(round(row.seconds / once), 1) if once else 1
