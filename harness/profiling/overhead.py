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
_NOTHING = Launch(eager=0.0, backward=0.0, step=0.0)


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
    gpu, spec, bare = profile.kind == "cuda", small_model(), profile.model_copy(update={"launch": _NOTHING})
    words: dict[str, Any] = {"batch": _BATCH, "seq": _SEQ, "dtype": "fp32", "execution": "eager"}
    ahead, whole = (predict(spec, bare, phase=phase, **words) for phase in ("forward", "training"))
    forward, training = _measured(spec, profile.kind)
    hidden = (0.0, 0.0) if gpu else (ahead.seconds, whole.seconds)
    eager = max(forward - hidden[0], 0.0) / _asked(ahead, gpu, "forward")
    launched = eager * _asked(whole, gpu, "forward", "update") + profile.launch.step
    backward = max(training - hidden[1] - launched, 0.0) / _asked(whole, gpu, "backward")
    found = {"module" if gpu else "eager": eager, "backward": backward}
    return profile.model_copy(update={"launch": profile.launch.model_copy(update=found)})


def _asked(found: Prediction, launches: bool, *directions: str) -> float:
    """How often the host asks for something: kernels, or on a GPU everything that is launched in their place."""
    return sum(
        row.kernel.calls * (max(row.kernel.launches, 1.0) if launches else 1.0)
        for row in found.kernels
        if row.kernel.direction in directions
    )


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
