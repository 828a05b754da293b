"""What a model takes of its host beyond its kernels: Python's modules, views, autograd. Needs torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median_low
from typing import Any

import torch

from calc.spec import ModelSpec, Shorthand
from calc.time import Prediction, predict
from calc.time.device.profile import Launch, Profile
from harness.profiling.launch import waiting
from reference_models import build
from reference_models.objectives import next_token

_BATCH, _SEQ, _RUNS = 1, 64, 25
_NOTHING = Launch(eager=0.0, module=0.0, backward=0.0, step=0.0)


def small_model() -> ModelSpec:
    """A model that spends much of its time between kernels."""
    return Shorthand(d_model=128, n_layers=6, n_heads=2, vocab_size=1024, max_seq_len=_SEQ).expand()


def with_overhead(profile: Profile) -> Profile:
    """`profile` with what a small model takes beyond the kernels that are predicted for it, in equal parts for each.

    On a CPU that is what is left of its time. On a GPU it is all of it: kernels this small are over before the host has
    asked for the next. The step's own seconds stay as they were measured; a profile without fp32, or without them,
    stays as it is.
    """
    if profile.launch is None or "fp32" not in profile.gemm:
        return profile
    of_device = of_gpu if profile.kind == "cuda" else _of_cpu
    launch = of_device(profile, profile.launch, *_measured(small_model(), profile.kind))
    return profile.model_copy(update={"launch": launch})


def _of_cpu(profile: Profile, launch: Launch, forward: float, training: float) -> Launch:
    """forward, training: seconds of a pass and of a step of the small model."""
    ahead, whole = (_predicted(profile, _NOTHING, phase) for phase in ("forward", "training"))
    eager = max(forward - ahead.seconds, 0.0) / _kernels(ahead, "forward")
    launched = eager * _kernels(whole, "forward", "update") + launch.step
    backward = max(training - whole.seconds - launched, 0.0) / _kernels(whole, "backward")
    return Launch(eager=eager, backward=backward, step=launch.step)


def of_gpu(profile: Profile, launch: Launch, forward: float, training: float) -> Launch:
    """`launch` with the seconds of a kernel amid modules, and going back, of which such a pass and such a step of the
    small model are made. What counts as which is what predictions take for it."""

    def asked(phase: str, **one: float) -> float:
        found = _predicted(profile, _NOTHING.model_copy(update=one), phase)
        return sum(row.dispatch for row in found.kernels)

    plain = launch.eager * asked("forward", eager=1.0)
    module = max(forward - plain, 0.0) / asked("forward", module=1.0)
    known = launch.step + launch.eager * asked("training", eager=1.0) + module * asked("training", module=1.0)
    backward = max(training - known, 0.0) / asked("training", backward=1.0)
    return launch.model_copy(update={"module": module, "backward": backward})


def _predicted(profile: Profile, launch: Launch, phase: str) -> Prediction:
    """The small model by a profile that launches so."""
    words: dict[str, Any] = {"batch": _BATCH, "seq": _SEQ, "dtype": "fp32", "execution": "eager", "phase": phase}
    return predict(small_model(), profile.model_copy(update={"launch": launch}), **words)


def _kernels(found: Prediction, *directions: str) -> float:
    return sum(row.kernel.calls for row in found.kernels if row.kernel.direction in directions)


def _measured(spec: ModelSpec, device: str) -> tuple[float, float]:
    """Seconds of a forward pass, and of a training step."""
    model = build(spec).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(1024, (_BATCH, _SEQ), device=device)
    wait = waiting(device)

    def forward() -> None:
        with torch.no_grad():
            model(tokens)

    def step() -> None:
        next_token(model, tokens).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return _seconds(forward, wait), _seconds(step, wait)


def _seconds(run: Callable[[], None], wait: Callable[[], None]) -> float:
    found = []
    for _ in range(_RUNS):
        begun = time.perf_counter()
        run()
        wait()
        found.append(time.perf_counter() - begun)
    return median_low(found[2:])
