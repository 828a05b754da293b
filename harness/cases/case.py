"""What a case is: a thing to be measured, described without torch, and how it is made ready where torch is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ConfigDict

from calc.errors import Refused
from calc.spec.fields import DeviceKind
from harness.record import Environment, Forecast

if TYPE_CHECKING:
    from calc.time.device.profile import Profile

Counts = Mapping[str, float]
"""flops, bytes, tokens, model_flops: each where it is known."""


@dataclass(frozen=True)
class Ready:
    """A case whose tensors are there.

    run: one execution. check: compares one execution with an independent result and gives the largest relative error;
    None where nothing could be compared. tolerance: the error above which the case fails. rotate: the next of
    several sets of inputs, before every execution and outside of the time; None: there is one set.
    graphable: whether `run` may be captured into a CUDA graph. close: gives back what is not freed by itself.
    components: seconds by component of the model, as `calc` names them, of one more execution that is taken apart.
    """

    run: Callable[[], Any]
    check: Callable[[], float] | None = None
    tolerance: float = 1e-2
    rotate: Callable[[], None] | None = None
    graphable: bool = False
    close: Callable[[], None] | None = None
    components: Callable[[], dict[str, float]] | None = None


@dataclass(frozen=True)
class Case(ABC):
    """One thing to be measured; its fields are what it depends on, and its id follows from them.

    step: whether it is a step of a whole model, which is measured to 1 % and not to 0.5 %. cache: whether inputs are
    pushed out of the L2 cache between executions. clock: what measures, None where that is left to the runner.
    """

    kind: ClassVar[str]
    step: ClassVar[bool] = False
    # For `make` of harness.cases: nothing is converted, and nothing unknown is passed over.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid")

    @property
    def params(self) -> dict[str, Any]:
        """The fields by name, as plain JSON values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def id(self) -> str:
        """`kind/name=value,…`: the same wherever the case is run, and never two cases with one."""
        return f"{self.kind}/" + ",".join(f"{name}={value}" for name, value in self.params.items() if value is not None)

    @property
    def cache(self) -> Literal["hot", "cold"]:
        return "hot"

    @property
    def clock(self) -> Literal["host", "cuda-event", "cuda-graph"] | None:
        return None

    @abstractmethod
    def counts(self) -> Counts:
        """What one execution takes at least, as `calc` counts it: FLOPs, bytes moved, tokens.

        model_flops: of the convention `palm`, where a share of the peak is asked for (MFU).
        """

    @abstractmethod
    def memory(self) -> float:
        """Bytes it takes at most, roughly: a case that needs more than a device has is not started."""

    @abstractmethod
    def forecast(self, profile: Profile) -> Forecast | None:
        """Its time as the profile predicts it; None where the profile does not tell."""

    @abstractmethod
    def ready(self, device: DeviceKind) -> Ready:
        """Make the tensors. Imports torch. Errors: NotImplementedError with the reason where it cannot run here."""

    def unsupported(self, environment: Environment) -> str | None:
        """Why it cannot run there, None where it can; asked before a process is started."""
        return None

    def dominates(self, other: Case) -> bool:
        """Whether `other` needs no more memory in any respect: if that runs out of memory, this one does too."""
        mine, theirs = self.params, other.params
        if self.kind != other.kind or mine.keys() != theirs.keys():
            return False
        sizes = {name for name, value in theirs.items() if isinstance(value, int) and not isinstance(value, bool)}
        same = all(mine[name] == theirs[name] for name in mine.keys() - sizes)
        return same and all(isinstance(mine[name], int) and mine[name] >= theirs[name] for name in sizes)

    def require(self, field: str, holds: bool, expected: str) -> None:
        """Errors: Refused with the field's value unless `holds`: for what one field asks of another."""
        if not holds:
            raise Refused(field, expected, getattr(self, field))
