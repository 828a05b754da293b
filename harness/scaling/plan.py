"""Which models are trained for how long, and what of it goes into a fit."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from calc import parameters
from calc.ask.estimate import estimate
from calc.errors import Refused
from calc.spec import ModelSpec, Shorthand
from harness.scaling.language import Language


@dataclass(frozen=True)
class Size:
    """A GPT with heads of 16, learned positions and a tied head."""

    d_model: int
    n_layers: int

    @property
    def name(self) -> str:
        return f"gpt-{self.d_model}x{self.n_layers}"


@dataclass(frozen=True)
class Plan:
    """Models, from small to large; the last one is held out of the fit and predicted by it.

    budgets: training tokens, each a row of its own: from the one run of a model at its constant learning rate a branch
    leaves at 0.8 of a budget and falls to zero over the rest of it (Hägele et al., arXiv:2405.18392), so that every
    row is the loss of a finished training. rate: of AdamW, for d_model 32; it falls as 1/sqrt(d_model).
    tested: sequences that the loss is the mean over, none of which is trained on.
    """

    sizes: tuple[Size, ...]
    budgets: tuple[int, ...]
    language: Language = field(default_factory=Language)
    seq: int = 64
    batch: int = 4
    rate: float = 6e-3
    warmup: int = 20
    tested: int = 1024
    seed: int = 0

    def __post_init__(self) -> None:
        for budget in self.budgets:
            if budget % (5 * self.batch * self.seq):
                raise Refused("budget", f"a multiple of {5 * self.batch * self.seq:,} tokens, five steps", budget)

    @property
    def dataset(self) -> str:
        """A name for the language and the recipe, which rows must share to be fitted together."""
        described = {name: value for name, value in asdict(self).items() if name not in ("sizes", "budgets")}
        described["language"].pop("_tables")
        return f"habits-{hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:8]}"

    def learning_rate(self, size: Size) -> float:
        return self.rate * (32 / size.d_model) ** 0.5

    def spec(self, size: Size) -> ModelSpec:
        return Shorthand(
            name=size.name,
            d_model=size.d_model,
            n_layers=size.n_layers,
            n_heads=max(1, size.d_model // 16),
            vocab_size=self.language.vocab_size,
            max_seq_len=self.seq,
        ).expand()

    def row(self, size: Size, budget: int, loss: float) -> dict[str, Any]:
        """A row of `runs.csv`. flops: 3 forward passes a token, as `calc` counts them (convention torch)."""
        spec = self.spec(size)
        weights = parameters(spec)
        nonemb = sum(count for path, count in weights.items() if not path.startswith("embedding"))
        training = int(estimate(spec, "flops.training", seq=self.seq).value)
        return {
            "source": "harness",
            "run": size.name,
            "dataset": self.dataset,
            "params_total": sum(weights.values()),
            "params_nonemb": nonemb,
            "tokens": budget,
            "unique_tokens": budget,
            "flops": training * (budget // self.seq),
            "loss": float(f"{loss:.6g}"),
            "lr": float(f"{self.learning_rate(size):.4g}"),
            "batch_tokens": self.batch * self.seq,
        }


STANDARD = Plan(
    sizes=tuple(Size(d, n) for d, n in ((16, 1), (24, 1), (32, 2), (48, 2), (64, 3), (96, 3), (128, 4))),
    budgets=(163_840, 327_680, 655_360, 1_310_720),
)
"""Seven models of 7 thousand to 830 thousand parameters, each with four budgets."""
