"""Who says what a model really costs: our reference models, and transformers (`transformers_oracle`), on meta."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from calc.spec import ModelSpec
from calc.spec.run import Checkpointing

REFERENCE = "pip install -e '.[harness]' in a clone"
MODES: tuple[Checkpointing, ...] = ("none", "selective", "full", "full-early-stop")
"""The ways of checkpointing that our models run."""


class Counted(NamedTuple):
    """What was counted, by the name of the quantity; shapes: of every parameter, None where names are not ours."""

    quantities: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]] | None = None


def sees(spec: ModelSpec) -> bool:
    """Whether pictures stand among its text, and one is shown to it."""
    return spec.vision is not None or spec.eyes is not None


def reference(spec: ModelSpec, batch: int, seq: int, mtp: bool = False) -> Counted:
    """The reference model: `batch` sequences of `seq` tokens, then one more token of each.

    mtp: with the modules that predict further tokens, which do not run in decoding.

    Errors: ImportError without torch, with the command that installs it; NotImplementedError for a block that has no
    module.
    """
    torch = torch_or_hint()
    from harness.counter import count
    from reference_models import build
    from reference_models.inputs import example

    if spec.denoised is not None:
        return _denoiser(spec, batch, count)
    model = build(spec, "meta", torch.bfloat16, mtp=mtp)
    arguments = example(model, batch, seq, images=int(sees(spec)))
    if spec.eyes is not None:  # whose example is as small as can be, and not the picture that they are made for
        side = spec.eyes.side
        arguments["images"] = torch.zeros(1, 3, side, side, device="meta", dtype=torch.bfloat16)
    found = {"params": sum(p.numel() for p in model.parameters()), "flops.forward": count(lambda: model(**arguments))}
    for mode in MODES:

        def train(mode: Any = mode) -> None:
            out = model(**arguments, checkpointing=mode)
            torch.stack([result.sum() for result in out.results]).sum().backward()

        found[f"flops.training, {mode}"] = count(train)
    cache, static = model.new_cache(), model.new_cache(seq + 1)
    if any(mixer is not None for mixer in cache.mixers):  # a detector's queries have a source to read, and no past
        with torch.no_grad():
            prompt, token = example(model, batch, seq), example(model, batch, 1, decode=True)
            model(**prompt, cache=cache)
            found["kv_cache, growing"] = cache.nbytes
            found["flops.decode"] = count(lambda: model(**token, cache=cache))
            # Filled to its end: what waits for a compressed entry is not laid out beforehand.
            model(**prompt, cache=static)
            model(**token, cache=static)
            found["kv_cache, static"] = static.nbytes
    return Counted(found, {name: tuple(p.shape) for name, p in model.named_parameters()})


def _denoiser(spec: ModelSpec, batch: int, count: Callable[[Callable[[], object]], int]) -> Counted:
    """One step of `batch` pictures, and its training."""
    import torch

    from reference_models.denoiser import Denoiser

    with torch.device("meta"):
        model = Denoiser(spec).to(torch.bfloat16)
    arguments = model.example(batch)
    found = {"params": sum(p.numel() for p in model.parameters()), "flops.forward": count(lambda: model(**arguments))}
    for mode in MODES:

        def train(mode: Any = mode) -> None:
            model(**arguments, checkpointing=mode).sum().backward()

        found[f"flops.training, {mode}"] = count(train)
    return Counted(found, {name: tuple(p.shape) for name, p in model.named_parameters()})


def torch_or_hint() -> Any:
    """torch itself. Errors: ImportError with the command that installs it."""
    try:
        import torch
    except ImportError:
        raise ImportError(f"verify needs torch: {REFERENCE}") from None
    return torch
