"""The child that trains one model: `python -m harness.scaling.training PARENT`, a request on stdin, lines on stdout.

Lines are JSON: {"tokens": trained so far} now and then, and at the end {"losses": {budget: loss}}.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from harness.running.process import die_with_parent
from harness.scaling.language import Language
from harness.scaling.plan import Plan, Size

if TYPE_CHECKING:
    from torch import Tensor

    from reference_models import Model

DECAY = 0.2
"""Part of a budget over which the learning rate falls to zero."""


def train(plan: Plan, size: Size, device: str, say: Callable[[int], None]) -> dict[int, float]:
    """Losses by budget, in nats a token. say: is told how many tokens have been trained on, branches included.

    Imports torch. The same plan gives the same losses on the same machine with one thread.
    """
    import torch

    from reference_models import build

    torch.manual_seed(plan.seed)
    text = plan.language.text(max(plan.budgets) // plan.seq, plan.seq, seed=1)
    data = torch.from_numpy(text).to(device)
    held = torch.from_numpy(plan.language.text(plan.tested, plan.seq, seed=2)).to(device)
    trainer = Trainer(build(plan.spec(size), device), plan.learning_rate(size))
    losses: dict[int, float] = {}
    step, done = 0, 0
    for budget in sorted(plan.budgets):
        steps = budget // (plan.batch * plan.seq)
        leave = round(steps * (1 - DECAY))
        for at in range(step, leave):
            trainer.step(_batch(data, at, plan), min(1.0, (at + 1) / plan.warmup))
            say(done := done + plan.batch * plan.seq)
        step, branch = max(step, leave), deepcopy(trainer)
        for at in range(leave, steps):
            branch.step(_batch(data, at, plan), (steps - at) / (steps - leave))
            say(done := done + plan.batch * plan.seq)
        losses[budget] = branch.loss(held)
    return losses


def work(plan: Plan) -> int:
    """Tokens that a model is trained on in all: the longest run, and every branch."""
    steps = [budget // (plan.batch * plan.seq) for budget in plan.budgets]
    branches = sum(each - round(each * (1 - DECAY)) for each in steps)
    return (round(max(steps) * (1 - DECAY)) + branches) * plan.batch * plan.seq


class Trainer:
    """A model with its optimizer: AdamW with betas 0.9 and 0.95, weight decay 0.01, gradients clipped to norm 1."""

    def __init__(self, model: Model, rate: float) -> None:
        import torch

        self.model = model
        self.rate = rate
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.01)

    def __deepcopy__(self, memo: dict[int, Any]) -> Trainer:
        copy = Trainer(deepcopy(self.model), self.rate)
        copy.optimizer.load_state_dict(deepcopy(self.optimizer.state_dict()))
        return copy

    def step(self, tokens: Tensor, part: float) -> None:
        """One step on tokens [batch, seq] at that part of the learning rate."""
        from torch.nn.utils import clip_grad_norm_

        from reference_models.objectives import next_token

        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * part
        next_token(self.model, tokens, kernel="sdpa").backward()
        clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def loss(self, held: Tensor) -> float:
        """Nats a token on sequences that were not trained on."""
        import torch

        from reference_models.objectives import next_token

        with torch.no_grad():
            parts = [float(next_token(self.model, each, kernel="sdpa")) * len(each) for each in held.split(64)]
        return sum(parts) / len(held)


def _batch(data: Tensor, step: int, plan: Plan) -> Tensor:
    return data[step * plan.batch : (step + 1) * plan.batch]


def request(plan: Plan, size: Size, device: str, threads: int) -> str:
    """What the child reads: everything that `asked` needs."""
    language = {name: value for name, value in vars(plan.language).items() if not name.startswith("_")}
    plain = {name: value for name, value in vars(plan).items() if name not in ("sizes", "language")}
    return json.dumps({"plan": plain, "language": language, "size": vars(size), "device": device, "threads": threads})


def run_from(text: str) -> tuple[Plan, Size, str, int]:
    """The same again from its text."""
    record = json.loads(text)
    size = Size(**record["size"])
    record["language"]["weights"] = tuple(record["language"]["weights"])
    record["plan"]["budgets"] = tuple(record["plan"]["budgets"])
    plan = Plan(sizes=(size,), language=Language(**record["language"]), **record["plan"])
    return plan, size, record["device"], record["threads"]


def main() -> None:
    """Serve one request."""
    import torch

    die_with_parent(int(sys.argv[1]))
    plan, size, device, threads = run_from(sys.stdin.read())
    torch.set_num_threads(threads)
    ticks = _every(50)

    def say(tokens: int) -> None:
        if next(ticks):
            print(json.dumps({"tokens": tokens}), flush=True)

    losses = train(plan, size, device, say)
    print(json.dumps({"losses": losses}), flush=True)


def _every(number: int) -> Iterator[bool]:
    """True at every `number`-th call."""
    while True:
        yield from [False] * (number - 1)
        yield True


if __name__ == "__main__":
    main()
