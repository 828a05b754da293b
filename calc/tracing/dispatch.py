"""Runs a module whose tensors hold no numbers, and writes down every operation and everything that autograd keeps.

Floating-point tensors are fake: they have a shape, a format and a memory of their own, and no numbers. Integers and
booleans that depend on no weight (positions, masks) are computed, so that a module that looks at them decides as it
does when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from calc.errors import Refused
from calc.tracing.aten import works
from calc.tracing.events import Capture, Event, Keeping, Place, Seen

FORMATS = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.int64: "int64"}
MOST_REAL = 2**26
"""Elements of integers and booleans that are still computed: a mask of 8,192 tokens square."""
MOST_EVENTS = 400_000
"""Operations after which a trace is given up: a loop over tokens, written in Python."""
BOOKKEEPING = ("prim.", "aten.lift_fresh", "aten.alias", "aten.detach", "aten._local_scalar_dense", "aten.sym_")


def fakes(module: nn.Module, mode: FakeTensorMode, dtype: torch.dtype) -> None:
    """Put fake tensors in the places of a module's parameters and floating-point buffers, those in `dtype`, tied ones
    once."""
    made: dict[int, tuple[Tensor, Tensor]] = {}

    def fake(x: Tensor, parameter: bool) -> Tensor:
        if id(x) not in made:
            wanted = dtype if x.is_floating_point() and (parameter or x.dtype != torch.float64) else x.dtype
            with mode:
                new: Tensor = torch.empty(x.shape, dtype=wanted, device="cpu")
                new = nn.Parameter(new, x.requires_grad) if parameter else new
            made[id(x)] = (x, new)
        return made[id(x)][1]

    for each in module.modules():
        for name, parameter in each._parameters.items():
            if parameter is not None:
                each._parameters[name] = fake(parameter, True)  # pyright: ignore[reportArgumentType]
        for name, buffer in each._buffers.items():
            if buffer is not None and (buffer.is_meta or buffer.is_floating_point()):
                each._buffers[name] = fake(buffer, False)


class _Recording(TorchDispatchMode):
    """Sees every operation below autograd."""

    def __init__(self, module: nn.Module, lists: tuple[str, ...]) -> None:
        super().__init__()
        self.capture = Capture()
        self.lists = lists
        self.stack: list[tuple[str, tuple[str, int, int] | None]] = [("", None)]
        self.times: dict[tuple[str, int], int] = {}
        self.last = ""
        # What is alive keeps its storage's number from being given to another.
        self.alive: list[Tensor] = []
        self.numbers: dict[int, int] = {}
        self.weights = {_memory(p): name for name, p in module.named_parameters()}
        self.own = set(self.weights)
        self.seen_kept: set[int] = set()

    @property
    def place(self) -> Place:
        return Place(*self.stack[-1])

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:  # fake tensors are asked more often than all else is done
            return func(*args, **kwargs)
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        out = self.computed(func, args, kwargs, given)
        made = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
        name = str(func).rpartition(".")[0]
        if not made or name.startswith(BOOKKEEPING):
            return out
        self.alive += made
        sources = {_memory(x) for x in given}
        if all(_memory(x) in sources for x in made) and not func._schema.is_mutable:
            return out
        self.note(name, args, kwargs, given, made, out)
        return out

    def computed(self, func: Any, args: Any, kwargs: Any, given: list[Tensor]) -> Any:
        """The result: with numbers where all that is read has some, and it is no tensor of floating point or small."""
        if func is torch.ops.aten._grouped_mm.default:
            # Its shape function takes neither fp32 nor rows that are no multiple of 16 bytes, which others multiply.
            return args[0].new_empty(*args[0].shape[:-1], args[1].shape[-1])
        if any(isinstance(x, FakeTensor) for x in given):
            return func(*args, **kwargs)
        if given and func is torch.ops.aten._local_scalar_dense.default:
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        shape = func(*args, **kwargs)
        made = [x for x in tree_leaves(shape) if isinstance(x, Tensor)]
        if any(x.numel() > (64 if x.is_floating_point() else MOST_REAL) for x in made):
            return shape
        with unset_fake_temporarily():
            return func(*args, **kwargs)

    def note(self, name: str, args: Any, kwargs: Any, given: list[Tensor], made: list[Tensor], out: Any) -> None:
        if len(self.capture.events) >= MOST_EVENTS:
            raise Refused("--traced", f"a pass of at most {MOST_EVENTS:,} operations (fewer tokens)", "more")
        plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
        self.last = plain.partition(".")[2]
        flat = [*args, *kwargs.values()]
        reads: list[Seen | None] = []
        for each in flat:
            inner = [x for x in tree_leaves(each) if isinstance(x, Tensor)]
            reads += [self.seen(x) for x in inner] if inner else [None]
        self.derive(given, made)
        first = made[0] if not isinstance(out, Tensor) else out
        event = Event(self.place, works(plain, args, kwargs, first), tuple(reads), tuple(self.seen(x) for x in made))
        self.capture.events.append(event)

    def derive(self, given: list[Tensor], made: list[Tensor]) -> None:
        """What is made of one parameter alone (a cast, a copy laid otherwise) stands for it."""
        names = {self.weights.get(_memory(x)) for x in given}
        if len(names) == 1 and None not in names and all(_memory(x) not in self.weights for x in made):
            name = self.weights[_memory(given[0])]
            self.weights.update({_memory(x): name for x in made if x.numel() == given[0].numel()})

    def seen(self, x: Tensor) -> Seen:
        memory = _memory(x)
        self.alive.append(x)
        return Seen(
            memory,
            tuple(x.shape),
            min(x.numel(), max(x.untyped_storage().nbytes() // x.element_size(), 1)),
            x.requires_grad,
            self.weights.get(memory),
            memory in self.own,
            x.dtype in (torch.float32, torch.float64),
        )

    def keep(self, x: Tensor) -> None:
        """Autograd keeps a tensor; what it gets in its place does not hold the graph, as no backward follows."""
        memory = _memory(x)
        if memory not in self.own and memory not in self.seen_kept:
            self.seen_kept.add(memory)
            self.capture.saved.append(self.keeping(x))
        self.alive.append(x)

    def keeping(self, x: Tensor) -> Keeping:
        nbytes = x.untyped_storage().nbytes()
        name = self.last or "input"
        return Keeping(self.place, name, _memory(x), nbytes, FORMATS.get(x.dtype, "bool"), x.requires_grad)

    def enter(self, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        layer = _layer_of(path, self.lists)
        above = self.stack[-1][1]
        if layer is None:
            self.stack.append((path, None))
            return
        name, number, is_layer = layer
        if is_layer:
            self.times[name, number] = self.times.get((name, number), -1) + 1
        key = (name, number, max(self.times.get((name, number), 0), 0))
        self.stack.append((path, key))
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor) and x.is_floating_point()]
        if key != above and tensors and key not in self.capture.entered:
            self.capture.entered[key] = self.keeping(tensors[0])


def _layer_of(path: str, lists: tuple[str, ...]) -> tuple[str, int, bool] | None:
    """The list, the number in it, and whether the module is the layer itself, of what stands in a layer."""
    for name in lists:
        if path.startswith(f"{name}."):
            number, _, rest = path[len(name) + 1 :].partition(".")
            if number.isdigit():
                return name, int(number), not rest
    return None


def _memory(x: Tensor) -> int:
    return x.untyped_storage()._cdata


def watched(
    module: nn.Module,
    mode: FakeTensorMode,
    inputs: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]],
    *,
    autocast: torch.dtype | None = None,
) -> Capture:
    """One forward pass of a module of fake tensors (`fakes`), with gradients.

    inputs: makes the arguments, called where tensors of floating point come out fake.
    """
    recording = _Recording(module, layer_lists(module))
    cast = nullcontext() if autocast is None else torch.autocast("cpu", autocast)
    with ExitStack() as stack:
        # The graph holds `keep` and with it these, which hold the graph: nobody would ever free them.
        stack.callback(recording.alive.clear)
        stack.enter_context(mode)
        args, kwargs = inputs()
        stack.enter_context(_followed(module, recording))
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(recording.keep, lambda x: x))
        stack.enter_context(recording)
        stack.enter_context(cast)
        stack.enter_context(torch.enable_grad())
        result = module(*args, **kwargs)
        logits = result.get("logits") if hasattr(result, "get") else getattr(result, "logits", None)
        if isinstance(logits, Tensor):
            recording.capture.logits = recording.keeping(logits)
        made = [x for x in tree_leaves(dict(result) if hasattr(result, "items") else result) if isinstance(x, Tensor)]
        recording.capture.results = frozenset(map(_memory, made))
    return recording.capture


@contextmanager
def _followed(module: nn.Module, recording: _Recording) -> Iterator[None]:
    """While it lasts, the recording knows which module runs."""
    hooks = []
    for path, each in module.named_modules():

        def enter(each: nn.Module, args: Any, kwargs: Any, path: str = path) -> None:
            recording.enter(path, args, kwargs)

        def leave(each: nn.Module, given: Any, result: Any) -> None:
            recording.stack.pop()

        hooks.append(each.register_forward_pre_hook(enter, with_kwargs=True))
        hooks.append(each.register_forward_hook(leave, always_call=True))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def layer_lists(module: nn.Module) -> tuple[str, ...]:
    """Paths of the outermost lists whose members are made of modules themselves: the stacks of layers."""
    found: list[str] = []
    for path, each in module.named_modules():
        if any(path.startswith(f"{outer}.") for outer in found):
            continue
        members = list(each.children())
        alike = isinstance(each, nn.Sequential) and len(members) > 1 and len({type(m) for m in members}) == 1
        if (isinstance(each, nn.ModuleList) or alike) and members and all(list(m.children()) for m in members):
            found.append(path)
    return tuple(found)
