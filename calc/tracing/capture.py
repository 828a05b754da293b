"""A PyTorch module of one's own as a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from calc.errors import Refused
from calc.spec.traced import Traced

Inputs = Mapping[str, Any] | tuple[Any, ...]


def capture(module: Any, example_inputs: Inputs | Callable[[int, int], Inputs], *, name: str = "module") -> Traced:
    """The model that a `torch.nn.Module` is, of which every quantity can be asked as of any other.

    example_inputs: tensors by the names of the forward pass's arguments, or in their order; the first one is
        [batch, seq, …], and the model answers for that batch and that seq alone. Or a function (batch, seq) -> such
        inputs, and it answers for any. Nothing of the tensors is read but their shapes and formats, and integers.
    The module itself is left as it is: it is copied without its numbers. Dropout counts as it stands: call `.eval()`,
    or build it without, to count none.
    Errors: Refused for what is no module, for inputs of other kinds, and for a module that cannot be run without
    numbers (it decides by what a tensor of floating point holds).
    """
    from calc.tracing.building import needed

    needed()
    from torch import nn

    from calc.tracing.model import from_module

    if not isinstance(module, nn.Module):
        raise Refused("module", "a torch.nn.Module", type(module).__name__)
    return from_module(module, example_inputs, name)
