"""The `serve` command that says of a plan of a server what its search says."""

from __future__ import annotations

import shlex

from calc.plan.serving_plan import ServingPlan
from calc.spec.catalogue import load_device


def serve_command(plan: ServingPlan, model: str, input_tokens: int, options: list[str]) -> str | None:
    """A line of one replica of the plan under its users; None where prompts and answers have GPUs of their own.

    model: what names it on a command line. options: what else was said that `serve` says with the same words.
    """
    service, *others = plan.services
    if others:
        return None
    layout, engine = service.layout, service.engine
    usual = engine.limits(load_device(service.device.name))[0]
    said = {
        "--gpu": service.device.name,
        "--gpus": layout.gpus,
        "--tp": layout.tp,
        "--pp": layout.pp if layout.pp > 1 else None,
        "--attention-dp": layout.attention_dp if layout.attention_dp > 1 else None,
        "--ep": layout.ep if layout.ep > 1 else None,
        "--engine": engine.name,
        "--dtype": service.form.name,
        "--batched-tokens": None if service.budget == usual else service.budget,
        "--input": input_tokens,
        "--output": plan.output,
        "--concurrency": max(int(plan.concurrency), 1) * layout.replicas,
    }
    words = [f"{word}" for option, value in said.items() if value is not None for word in (option, value)]
    return shlex.join(["python", "-m", "calc", "serve", model, *words, *options])
