"""What all cases do with torch: number formats, random inputs, and errors against an independent result.

torch is imported inside the functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from math import ceil
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from warnings import catch_warnings, filterwarnings

from calc.spec.fields import DeviceKind

if TYPE_CHECKING:
    import torch
    from torch import Tensor

T = TypeVar("T")
FAR = 2**28
"""Bytes over which inputs are spread that are to be in no cache: a few times the largest."""
SETS, FEW = 32, 8
"""The most sets of inputs that take turns, where they must fill a cache, and otherwise."""
TOLERANCE = {"fp64": 1e-9, "fp32": 1e-4, "tf32": 2e-3, "fp16": 1e-2, "bf16": 2e-2}
"""Relative errors up to which one kernel's result is right, by the format it computes in."""


def torch_dtype(name: str) -> torch.dtype:
    """The type of tensors that `name` computes with; tf32 is a way to multiply fp32."""
    import torch

    return {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]


def element_bytes(dtype: str) -> int:
    """Bytes of an element as it lies in memory."""
    return 4 if dtype in ("fp32", "tf32") else 2


def settle(dtype: str) -> None:
    """Bring torch's global switches to what a case expects, whatever ran before it: only `tf32` rounds fp32 products.

    torch.compile forgets what it compiled, so that no case inherits another's guards.
    """
    import torch

    with catch_warnings():
        # PyTorch 2.9 and later ask for a newer switch, which older ones lack and with which this one must not be mixed.
        filterwarnings("ignore", message="Please use the new API settings to control TF32")
        torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    torch.manual_seed(0)
    torch.compiler.reset()


def normal(*shape: int, dtype: str, device: DeviceKind, seed: int = 0, scale: float = 1.0) -> Tensor:
    """Normal numbers of standard deviation `scale`, drawn in fp32."""
    import torch

    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn(shape, generator=generator, device=device).mul_(scale).to(torch_dtype(dtype))


def relative(found: Tensor, right: Tensor) -> float:
    """||found - right|| / ||right||, in float64; infinite for what is not finite."""
    import torch

    found, right = found.detach().double(), right.detach().double()
    error = float(torch.linalg.vector_norm(found - right) / torch.linalg.vector_norm(right).clamp(min=1e-300))
    return error if error == error else float("inf")


def sets_of(nbytes: float, device: str, cold: bool) -> int:
    """How many sets of inputs of `nbytes` take turns."""
    if not cold and device != "cpu":
        return 1
    return max(min(ceil(FAR / max(nbytes, 1)), SETS if cold else FEW), 1)


class Turns(Generic[T]):
    """Several sets of inputs, of which one at a time is used.

    far: as many sets as together fill no cache, else one alone. own: whether every use takes the next one, as it should
    on a CPU, where nothing empties the caches between two executions; otherwise `next` does.
    """

    def __init__(self, make: Callable[[int], T], nbytes: float, device: DeviceKind, cold: bool) -> None:
        self.own = device == "cpu"
        self.sets: Sequence[T] = [make(seed) for seed in range(sets_of(nbytes, device, cold))]
        self._order: Iterator[T] = cycle(self.sets)
        self.now: T = next(self._order)
        self.rotate = self.next if cold and not self.own and len(self.sets) > 1 else None

    def next(self) -> None:
        """Go on to the next set."""
        self.now = next(self._order)

    def __call__(self) -> T:
        """The set to use."""
        if self.own:
            self.next()
        return self.now


@contextmanager
def building(dtype: str) -> Iterator[None]:
    """Modules that are built here have parameters of this format from the start, and never a wider copy."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch_dtype(dtype))
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def no_gradient(run: Callable[[], Any]) -> Callable[[], Any]:
    """`run` without anything being kept for backward."""
    import torch

    def bare() -> Any:
        with torch.no_grad():
            return run()

    return bare
