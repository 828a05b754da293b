"""GPU time and money as FLOPs, and back. Nothing is assumed: device, utilisation and price are given."""

from __future__ import annotations

from dataclasses import dataclass

from calc.errors import Refused
from calc.laws.arithmetic import real
from calc.spec.catalogue import load_device

DAY = 86_400


@dataclass(frozen=True, slots=True)
class Machines:
    """GPUs that train in bf16.

    gpu: a device of the catalogue. mfu: the share of its dense bf16 peak that the run's FLOPs get, 0 to 1.
    gpus: how many; None leaves the days of the whole run open. price: of one GPU for an hour, in any currency.
    Errors: Refused for an unknown device, one without a bf16 peak, and numbers out of range.
    """

    gpu: str
    mfu: float
    gpus: int | None = None
    price: float | None = None

    def __post_init__(self) -> None:
        if not 0 < real("--mfu", self.mfu) <= 1:
            raise Refused("--mfu", "a share above 0 and up to 1", self.mfu)
        for field in ("gpus", "price"):
            if getattr(self, field) is not None:
                real(f"--{field}", getattr(self, field))
        load_device(self.gpu).peak("bf16")

    @property
    def rate(self) -> float:
        """FLOPs that one GPU does in a second."""
        return float(load_device(self.gpu).peak("bf16")) * self.mfu

    def compute(self, *, gpu_days: float | None = None, money: float | None = None) -> float:
        """FLOPs for so many GPU-days, or so much money. Errors: Refused for money without a price."""
        if gpu_days is None:
            if self.price is None:
                raise Refused("--price", "the price of one GPU for an hour beside --money", "none")
            gpu_days = real("--money", money) / self.price / 24
        return real("--gpu-days", gpu_days) * DAY * self.rate

    def needs(self, compute: float) -> dict[str, float]:
        """GPU-days for so many FLOPs; with a number of GPUs the days, and with a price the money too."""
        gpu_days = compute / self.rate / DAY
        found = {"gpu_days": gpu_days}
        if self.gpus is not None:
            found["days"] = gpu_days / self.gpus
        if self.price is not None:
            found["cost"] = gpu_days * 24 * self.price
        return found


def machines(
    gpu: str | None, mfu: float | None, gpus: int | None = None, price: float | None = None
) -> Machines | None:
    """The machines that are described; None where nothing is said of them.

    Errors: as Machines, and Refused for a description without device or utilisation.
    """
    if (gpu, mfu, gpus, price) == (None, None, None, None):
        return None
    if gpu is None:
        raise Refused("--gpu", "a device of `gpus` beside --mfu, --gpus and --price", "none")
    if mfu is None:
        raise Refused("--mfu", "the share of the peak that training reaches, beside --gpu", "none")
    return Machines(gpu, mfu, gpus, price)
