"""A recurrence over the tokens of a pass: in chunks, or token by token behind those that a cache has seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor

from reference_models.cache import LayerCache
from reference_models.step import Step, recomputed

Rule = Callable[..., tuple[Tensor, Tensor]]
"""A result for the tokens that it is given, and the state behind them."""


def run_rule(arguments: tuple[Tensor, ...], step: Step, cache: LayerCache | None, one: Rule, several: Rule) -> Tensor:
    """Results [batch, heads, seq, width] of a rule that reads `arguments` [batch, heads, seq, ...].

    one: the rule for a single token, `one(*arguments, state)`. several: for any number of them,
    `several(*arguments, state=state)`, state None at a beginning. The state behind the last token stays in the cache.
    """
    before = None if cache is None else cache.state.get("state")
    if before is not None and arguments[0].shape[2] == 1:
        y, state = one(*(t[:, :, 0] for t in arguments), before)
        y = y[:, :, None]
    else:
        run = partial(several, state=before)
        y, state = recomputed(run, *arguments) if step.checkpointing == "selective" else run(*arguments)
    if cache is not None:
        cache.state["state"] = state
    return y
