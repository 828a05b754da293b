"""A module as a model: `calc.spec.traced.Traced`, whose record is a capture at the lengths that are asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map

from calc.errors import Refused
from calc.quantities.parameters import parameters
from calc.sizes import is_exactly
from calc.spec.heads import Head
from calc.spec.layers import LayerGroup
from calc.spec.load import Load
from calc.spec.traced import EXACT, Traced
from calc.trace.part import Part
from calc.trace.settings import Settings
from calc.tracing.building import config_of, module_of, one_line, quiet
from calc.tracing.dispatch import fakes, watched
from calc.tracing.events import Capture
from calc.tracing.inputs import inputs_for, reads_tokens, size, stretches
from calc.tracing.layers import kinds
from calc.tracing.recording import Experts, Recording

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
USUAL = Settings("sdpa")
Given = tuple[tuple[Any, ...], dict[str, Any]]
SHORT = Load(batch=1, seq=16)
"""A pass whose length does not matter."""


@dataclass(slots=True)
class Source:
    """Where modules and their arguments come from.

    build: attention's name -> the module, its tensors without memory. inputs: module and load -> its arguments.
    lengths: (batch, seq) where the arguments have these alone.
    """

    build: Callable[[str], nn.Module]
    inputs: Callable[[nn.Module, Load], Given]
    lengths: tuple[int, int] | None = None
    modules: dict[tuple[str, str], tuple[nn.Module, FakeTensorMode]] = field(default_factory=dict)
    captures: dict[Any, Capture] = field(default_factory=dict)

    def module(self, attention: str, dtype: str) -> tuple[nn.Module, FakeTensorMode]:
        if (attention, dtype) not in self.modules:
            module, mode = self.build(attention), FakeTensorMode(allow_non_fake_inputs=True)
            fakes(module, mode, DTYPES[dtype])
            if (config := getattr(module, "config", None)) is not None:
                config.dtype = DTYPES[dtype]
            self.modules[attention, dtype] = module, mode
        return self.modules[attention, dtype]

    def capture(self, load: Load, s: Settings) -> Capture:
        """One pass. Errors: Refused where the module cannot be run without numbers."""
        key = (load, s.execution, s.stream, s.autocast)
        if key not in self.captures:
            attention = "eager" if s.execution == "eager" else "sdpa"
            module, mode = self.module(attention, s.stream)
            autocast = DTYPES[s.dtype] if s.autocast else None
            try:
                with quiet(), _as_it_runs():
                    made = watched(module, mode, lambda: self.inputs(module, load), autocast=autocast)
            except Refused:
                raise
            except RecursionError:
                raise Refused("--traced", "a module that can be run without numbers", "endless recursion") from None
            except Exception as error:
                raise Refused("--traced", "a module that can be run without numbers", one_line(error)) from None
            self.captures[key] = made
        return self.captures[key]


def _as_it_runs() -> Any:
    """Autocast keeps no casts of weights between passes."""
    return torch.autocast("cpu", enabled=False, cache_enabled=True)


def traced(
    source: Source,
    name: str,
    family: str,
    *,
    experts: Experts | None,
    tokens: bool,
    wide_loss: bool = True,
    **fields: Any,
) -> Traced:
    """The model that a source stands for. fields: as those of `ModelSpec`.

    Errors: Refused where it cannot be captured.
    """
    records: dict[Load, Part] = {}

    def record(load: Load | None) -> Part:
        wanted = _load_for(source, load)
        if wanted not in records:
            plain = replace(wanted, scores="full")
            capture = source.capture(plain, USUAL)
            module, _ = source.module("sdpa", USUAL.stream)
            shapes = {key: tuple(p.shape) for key, p in module.named_parameters()}
            frozen = frozenset(key for key, p in module.named_parameters() if not p.requires_grad)
            again = lambda settings: source.capture(plain, settings)  # noqa: E731
            records[wanted] = Recording(capture, shapes, frozen, experts, wanted.scores, again).tree()
        return records[wanted]

    first = source.capture(replace(_load_for(source, None), scores="full"), USUAL)
    module, _ = source.module("sdpa", USUAL.stream)
    some, order = kinds(first, {key: tuple(p.shape) for key, p in module.named_parameters()})
    groups = tuple(LayerGroup(name=kind.name, count=len(kind.entries), shared=kind.shared) for kind in some)
    of = {entry: kind.name for kind in some for entry in kind.entries}
    made = Traced(
        name=name,
        family=family,
        layers=groups or (LayerGroup(name="layers", count=1),),
        schedule=tuple(of[entry] for entry in order) or None,
        head=None if first.logits is None else Head(wide_loss=wide_loss),
        notes=(EXACT,),
        record=record,
        tokens=tokens,
        **fields,
    )
    counted, held = sum(parameters(made).values()), sum(p.numel() for p in module.parameters())
    if counted != held:
        raise Refused("--traced", f"every parameter told once, {held:,} elements in all", f"{counted:,}")
    return made


def _load_for(source: Source, load: Load | None) -> Load:
    """The load that a capture is made for. Errors: Refused for what no capture answers."""
    if load is None:
        return SHORT if source.lengths is None else Load(batch=source.lengths[0], seq=source.lengths[1])
    if load.decode:
        raise Refused("phase", "forward or training for a traced model, which keeps no cache", "decode")
    if load.mtp:
        raise Refused("mtp", "false for a traced model", True)
    if not is_exactly(load.context, 0):
        load = replace(load, context=0)
    for key in ("batch", "seq", "source", "usual_source", "images"):
        value = getattr(load, key)
        if value is not None and not isinstance(value, int):
            raise Refused(key, "one whole number for a traced model", "a symbol or a column")
    if source.lengths is not None and (load.batch, load.seq) != source.lengths:
        batch, seq = source.lengths
        wanted = f"{load.batch} x {load.seq}"
        raise Refused("seq", f"--batch {batch} --seq {seq}, of which the example inputs are", wanted)
    return load


def from_transformers(raw: dict[str, Any], name: str) -> Traced:
    """The model that a decoded config.json stands for, built by transformers' own class.

    Errors: Refused for what transformers does not know or refuses, and for what cannot be run without numbers.
    """
    config_of(raw)  # before anything is built, and once more for each way to build it

    def build(attention: str) -> nn.Module:
        return module_of(config_of(raw), attention)

    source = Source(build, lambda module, load: ((), inputs_for(module, load)))
    module, _ = source.module("sdpa", USUAL.stream)
    config: Any = module.config
    experts = _experts(config)
    length = size(config, "max_position_embeddings", "n_positions")
    return traced(
        source,
        name,
        config.model_type,
        experts=experts,
        tokens=reads_tokens(module),
        stretches=stretches(module),
        wide_loss=_widens(module),
        d_model=_whole(size(config, "hidden_size", "d_model", "n_embd")) or 1,
        vocab_size=_whole(size(config, "vocab_size")) or 1,
        max_seq_len=_whole(length),
    )


def from_module(module: nn.Module, inputs: Any, name: str) -> Traced:
    """The model that a module is (`calc.tracing.capture.capture`)."""
    given = inputs if callable(inputs) else lambda batch, seq: inputs
    lengths = None if callable(inputs) else _lengths(inputs)

    def arguments(_: nn.Module, load: Load) -> Given:
        made = given(int(load.batch), int(load.seq))
        fake = tree_map(_unnumbered, made)
        if isinstance(fake, dict):
            return (), fake
        if not isinstance(fake, tuple | list):
            raise Refused(
                "example_inputs", "a tuple of tensors, or a dict by the arguments' names", type(made).__name__
            )
        return tuple(fake), {}

    source = Source(lambda attention: _copied(module), arguments, lengths)
    return traced(source, name, "own", experts=None, tokens=True, d_model=1, vocab_size=1, max_seq_len=None)


def _copied(module: nn.Module) -> nn.Module:
    """The module without its numbers, the original untouched. Tied parameters stay tied."""
    try:
        with torch.device("meta"):
            memo: dict[int, Any] = {}
            for each in (*module.parameters(), *module.buffers()):
                if each.is_floating_point():
                    empty = torch.empty_like(each, device="meta", requires_grad=each.requires_grad)
                    memo[id(each)] = (
                        nn.Parameter(empty, each.requires_grad) if isinstance(each, nn.Parameter) else empty
                    )
            return deepcopy(module, memo)
    except Exception as error:
        raise Refused("module", "one that can be copied", one_line(error)) from None


def _unnumbered(x: Any) -> Any:
    """A tensor of floating point as one without numbers; all else as it is."""
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return x
    return torch.empty(x.shape, dtype=x.dtype, device="cpu")


def _lengths(inputs: Any) -> tuple[int, int]:
    """(batch, seq) of the first tensor."""
    tensors = [x for x in tree_leaves(inputs) if isinstance(x, torch.Tensor) and x.ndim > 0]
    if not tensors:
        raise Refused("example_inputs", "a tensor [batch, seq, …] among them", "none")
    shape = tensors[0].shape
    return int(shape[0]), int(shape[1]) if len(shape) > 1 else 1


def _widens(module: nn.Module) -> bool:
    """Whether the loss of this class is computed in fp32: transformers' common loss of the next token does so."""
    own = inspect.getsource(type(module).forward)
    with quiet():
        return "self.loss_function(" in own and getattr(module.loss_function, "__name__", "") == "ForCausalLMLoss"


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 2**31 else None


def _experts(config: Any) -> Experts | None:
    copies = _whole(size(config, "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"))
    active = _whole(size(config, "num_experts_per_tok", "num_experts_per_token", "moe_top_k", "top_k_experts", "moe_k"))
    return Experts(copies, active) if copies and active and copies > 1 else None
