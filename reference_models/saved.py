"""What training a model really keeps: tensors that autograd saves for backward, and the peak of a GPU's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakSet

import torch
from torch import Tensor, nn


@dataclass
class Saved:
    """Bytes that autograd keeps of a forward pass.

    by_module: path of the module that keeps it first -> bytes; `` for what is kept outside of all modules within. A
    storage counts once, as a whole, however many tensors view it.
    """

    by_module: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.by_module.values())

    def within(self, path: str) -> int:
        """Bytes that the module at `path` and those in it keep."""
        return sum(n for name, n in self.by_module.items() if name == path or name.startswith(f"{path}."))


def saved_tensors(model: nn.Module, forward: Callable[[], object]) -> Saved:
    """Run `forward`, which must run `model`, and count what autograd keeps of it; parameters themselves are left out.

    Nothing is read from the tensors, so that it works on the meta device too. What checkpointing drops is not seen.
    """
    saved, stack = Saved(), [""]
    own = {_storage(tensor) for tensor in model.parameters()}
    # Kept alive while it runs: a storage that is freed could lend its number to another.
    found: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> None:
        key = _storage(tensor)
        if key not in own and key not in found:
            found[key] = tensor
            saved.by_module[stack[-1]] = saved.by_module.get(stack[-1], 0) + tensor.untyped_storage().nbytes()

    with _followed(model, stack), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        # The result is what holds the graph, and with it all that is kept.
        result = forward()
    del result
    # The graph holds `keep` and with it these, which may hold the graph: nobody would ever free them.
    found.clear()
    return saved


def still_kept(model: nn.Module, forward: Callable[[], object]) -> int:
    """Bytes that autograd keeps when `forward`, which must run `model`, is over; parameters themselves are left out.

    As `saved_tensors`, less what it frees meanwhile: of a result that nothing reads, as of the scores that experts were
    chosen by, PyTorch drops the operation with all that it kept.
    """
    held: WeakSet[_Held] = WeakSet()

    def keep(tensor: Tensor) -> _Held:
        # A result that its own operation keeps would hold that operation, and so itself.
        held.add(one := _Held(tensor.detach()))
        return one

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one.tensor):
        result = forward()
    own = {_storage(tensor) for tensor in model.parameters()}
    found = {_storage(one.tensor): one.tensor.untyped_storage().nbytes() for one in held}
    del result
    return sum(n for key, n in found.items() if key not in own)


@dataclass(eq=False)
class _Held:
    """A tensor for as long as autograd keeps it."""

    tensor: Tensor


def peak_allocation(step: Callable[[], object], device: torch.device | str = "cuda") -> int:
    """The most bytes that live tensors take on the GPU at any moment of `step`, what lives before it included.

    What cuBLAS has laid aside on every stream so far is given back before, where PyTorch can be told so, so that only
    this step's counts. Errors: RuntimeError where there is no CUDA device, since no other tells.
    """
    if torch.device(device).type != "cuda" or not torch.cuda.is_available():
        raise RuntimeError(f"device: expected a CUDA GPU, whose allocator counts bytes, found none at {device}")
    torch.cuda.synchronize(device)
    getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
    torch.cuda.reset_peak_memory_stats(device)
    step()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device)


@contextmanager
def _followed(model: nn.Module, stack: list[str]) -> Iterator[None]:
    """While it lasts, the last of `stack` is the path of the innermost module that runs."""
    hooks = []
    for path, module in model.named_modules():

        def enter(module: nn.Module, given: object, path: str = path) -> None:
            stack.append(path)

        def leave(module: nn.Module, given: object, result: object) -> None:
            stack.pop()

        hooks += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave, always_call=True)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
