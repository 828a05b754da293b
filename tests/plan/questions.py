"""Questions that are small enough to be answered one plan at a time."""

from __future__ import annotations

from typing import Any

from calc.plan.launchers import launcher
from calc.plan.question import Question
from calc.spec import ModelSpec, Shorthand
from calc.spec.clusters import load_cluster


def small_model(**sizes: Any) -> ModelSpec:
    """A model of a few layers whose heads and width two ranks can share; `n_experts` makes it one of experts."""
    usual: dict[str, Any] = {"d_model": 256, "n_layers": 4, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 1000}
    usual |= {"position": "rope"} | ({} if "n_experts" in sizes else {"d_ff": 512})
    return Shorthand(name="small", **(usual | sizes)).expand()


def question(spec: ModelSpec, gpus: int = 4, sequences: int = 8, seq: int = 64, **more: Any) -> Question:
    """A question on an H100 cluster, with one kind of schedule unless `more` says otherwise."""
    stack = more.get("words", {}).get("stack")
    usual = {"recipes": launcher(stack).recipes[:1], "fixed": {"schedule": "1f1b"}}
    return Question(spec, load_cluster("dgx-h100"), (gpus,), seq, sequences, **(usual | more))
