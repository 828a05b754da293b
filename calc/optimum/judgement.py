"""`judge`: a model and its tokens against the optimum of a law."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from calc.errors import Refused
from calc.laws import DEFAULT, LAWS, find
from calc.laws.arithmetic import crossing, real
from calc.laws.base import Law
from calc.laws.uncertainty import Interval
from calc.optimum.bands import bands, source
from calc.optimum.costs import Costs, as_fitted, counted, of_family, plain
from calc.optimum.routing import measures, of_model
from calc.optimum.search import Problem, lacks_optimum
from calc.spec import ModelSpec
from calc.units import si

Predict = Callable[[float, float], float]
"""N, D -> loss."""
VOCABULARY = 2**18
"""Tokens to guess among: as many as the largest vocabulary in whose tokens a law counts has, or more."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A model of `params` (as the law counts N) on `tokens`; compute is 6 N D, or exact FLOPs if asked so.

    past: its tokens over those that the law, at 6 N D, would give a model of this size; below 1, too few.
    best_params, best_tokens, best_loss: the law's optimum for the same compute.
    loss, loss_gap: of the model, and above best_loss. same_loss_compute, same_loss_params, same_loss_tokens: the
    optimum that reaches the model's loss. saving: share of the FLOPs of use that the model saves against it; below 0 it
    costs more.
    break_even: tokens of use after which training past the optimum has paid for itself; None where it never does.
    What rests on a loss is None for a law that predicts none. routing: the model's, as a law of experts asks for it.
    interval, interval_source: as in `Optimum`; a break-even that some draws do not have ends at infinity.
    """

    law: str
    model: str
    params: float
    tokens: float
    compute: float
    past: float
    best_params: float
    best_tokens: float
    loss: float | None
    best_loss: float | None
    loss_gap: float | None
    same_loss_compute: float | None
    same_loss_params: float | None
    same_loss_tokens: float | None
    saving: float | None
    break_even: float | None
    convention: str
    in_range: bool
    warnings: tuple[str, ...]
    interval: Mapping[str, Interval] = field(default_factory=dict)
    interval_source: str = ""
    routing: Mapping[str, float] = field(default_factory=dict)

    @property
    def tokens_per_param(self) -> float:
        return self.tokens / self.params


def judge(spec: ModelSpec, tokens: float, law: str = DEFAULT, seq: int | None = None) -> Judgement:
    """What `law` says of `spec` trained on `tokens`; with `seq`, FLOPs are the model's exact ones in such sequences,
    and the optima are this model made wider and deeper.

    Errors: Refused for a law that does not say what is optimal, for experts, for tokens that are not above 0, where the
    law's loss is above that of guessing, and with `seq` as `calc.optimum.costs.of_family`.
    """
    entry = find(law)
    if entry.frontier is None and entry.routed is None:
        raise lacks_optimum(entry)
    spec = as_fitted("MODEL", spec)
    routing = of_model("MODEL", spec, entry)
    entry = entry.at(**routing)
    n, d = float(counted(spec, entry.counts)), real("--tokens", tokens)
    if d < 1:
        raise Refused("--tokens", "1 or more tokens", tokens)
    problem = Problem(entry, plain(entry) if seq is None else of_family(spec, seq, entry.counts), None, routing)
    x = n if seq is None else 1.0
    compute = problem.costs.train(x) * d
    weighed = _weighed(problem, x, n, d)
    _refuse_guessing(entry, n, d, weighed["loss"])
    outside = entry.outside(params=n, tokens=d, compute=compute, **measures(spec))
    exact = "6 N D" if seq is None else f"exact FLOPs of {spec.name} in sequences of {seq}"
    return Judgement(
        law=entry.name,
        model=spec.name,
        params=n,
        tokens=d,
        compute=compute,
        **weighed,
        convention=f"N: {entry.params}; C: {exact}; D: {entry.tokens}",
        in_range=not outside,
        warnings=tuple(filter(None, (*outside, entry.inexact, entry.second_hand, _losses(problem)[1]))),
        interval=bands(problem, lambda drawn: _weighed(drawn, x, n, d)),
        interval_source=source(problem),
        routing=routing,
    )


def _refuse_guessing(law: Law, params: float, tokens: float, loss: float | None) -> None:
    """Errors: Refused where a law says that a model is worse than one that has learnt nothing and guesses among all
    tokens: so far from its data its curve means nothing."""
    guessed = math.log(VOCABULARY)
    if loss is not None and loss > guessed:
        learnt = f"below that of guessing among {VOCABULARY:,} tokens, {guessed:.1f} nats"
        expected = f"a law whose loss of {si(params)} parameters on {si(tokens)} tokens is {learnt}"
        raise Refused("--law", expected, f"{law.name}, which says {loss:,.1f}")


def _weighed(problem: Problem, x: float, n: float, d: float) -> dict[str, Any]:
    """What a judgement compares, by its names, of N at x on D by the constants of a problem."""
    line, costs = problem.frontier, problem.costs
    compute = costs.train(x) * d
    best, best_tokens = problem.best(compute)
    predict, _ = _losses(problem)
    loss = predict(n, d) if predict else None
    best_loss = predict(costs.size(best), best_tokens) if predict else None
    same = _same_loss(problem, predict, loss) if predict and loss is not None else None
    return {
        "past": d / line.tokens(line.compute(params=n)),
        "best_params": costs.size(best),
        "best_tokens": best_tokens,
        "loss": loss,
        "best_loss": best_loss,
        "loss_gap": None if loss is None or best_loss is None else loss - best_loss,
        "same_loss_compute": same and costs.train(same[0]) * same[1],
        "same_loss_params": same and costs.size(same[0]),
        "same_loss_tokens": same and same[1],
        "saving": same and 1 - costs.use(x) / costs.use(same[0]),
        "break_even": same and _break_even(costs, x, compute, same),
    }


def judge_all(spec: ModelSpec, tokens: float) -> list[Judgement | tuple[Law, str]]:
    """What every law that says what is optimal says of it, variants left out; or the law and why it says nothing.

    Errors: as `judge` where no law has an answer.
    """
    found: list[Judgement | tuple[Law, str]] = []
    for law in LAWS:
        if (law.frontier is None and law.routed is None) or law.variant_of is not None:
            continue
        try:
            found.append(judge(spec, tokens, law.name))
        except Refused as refused:
            found.append((law, str(refused)))
    if all(isinstance(each, tuple) for each in found):
        judge(spec, tokens)  # the default law's own words say best what is wrong with the question
    return found


def differ(found: Sequence[Judgement | tuple[Law, str]]) -> dict[str, tuple[float, float]]:
    """Lowest and highest of each share and amount that judgements are compared by, as far as two laws or more have it;
    superseded laws are left out. A payback that is never seen is infinite."""
    judged = [each for each in found if isinstance(each, Judgement) and not find(each.law).superseded]
    ends: dict[str, tuple[float, float]] = {}
    for name in ("past", "saving", "break_even"):
        column = [getattr(each, name) for each in judged if each.saving is not None or name == "past"]
        column = [math.inf if value is None else value for value in column]
        if len(column) > 1:
            ends[name] = (min(column), max(column))
    return ends


def differing(ends: Mapping[str, tuple[float, float]]) -> list[tuple[str, str]]:
    """The same in words, as a row of `verdict`; none where no two laws judge."""
    if not ends:
        return []
    notes = ["tokens {:.3g} to {:.3g} times what laws give such a size".format(*ends["past"])]
    if "saving" in ends:
        notes.append("use {} to {} FLOPs".format(*map(_fewer, ends["saving"])))
        paid = ends["break_even"]
        notes.append(
            "never paid back" if math.isinf(paid[0]) else "paid back after {} to {}".format(*map(_amount, paid))
        )
    return [("laws differ", "; ".join(notes))]


def verdict(found: Judgement) -> list[tuple[str, str]]:
    """A judgement in words: (what it is about, what is said of it), with its 95 % band where one is known."""

    def band(name: str, shown: Callable[[float], str]) -> str:
        wide = found.interval.get(name)
        return f" ({shown(wide.low)} to {shown(wide.high)})" if wide else ""

    past = f"{found.past:.3g}{band('past', '{:.3g}'.format)}"
    notes = [("tokens", f"{past} times what the law gives a model of this size")]
    if found.loss_gap is not None:
        gap = f"{found.loss_gap:+.4f}{band('loss_gap', '{:+.4f}'.format)}"
        notes.append(("loss", f"{gap} against the optimum of the same compute"))
    if found.saving is not None:
        fewer = f"{_fewer(found.saving)} FLOPs a token"
        wide = band("saving", _fewer)
        notes.append(("use", f"{fewer} than the optimum of the same loss{wide}"))
        paid = "never" if found.break_even is None else f"after {si(found.break_even)} tokens of use"
        wide = "" if found.break_even is None else band("break_even", _amount)
        notes.append(("paid back", f"{paid}{wide}"))
    return notes


def _fewer(share: float) -> str:
    return f"{abs(share):.1%} {'fewer' if share >= 0 else 'more'}"


def _amount(tokens: float) -> str:
    return "never" if math.isinf(tokens) else si(tokens)


def _losses(problem: Problem) -> tuple[Predict | None, str]:
    """The law's loss of N and D, and what is to be said of it; None where it has none."""
    law = problem.law
    if problem.form is not None:
        return problem.form.loss, ""
    known = [each for each in law.equations if each.gives == "loss" and each.takes == ("params", "tokens")]
    if not known:
        return None, ""
    note = f"losses are L(N, D) of {known[0].where}, which {law.name}'s powers of C do not minimise"
    return partial(known[0].rule, problem.k), note


def _same_loss(problem: Problem, predict: Predict, loss: float) -> tuple[float, float] | None:
    """x and tokens of the optimum that reaches a loss; None where none is found."""
    line, costs = problem.frontier, problem.costs
    if problem.form is not None and problem.plain:
        compute = line.compute(loss=loss)
        return line.params(compute), line.tokens(compute)

    def tokens(x: float) -> float:
        return line.tokens(line.compute(params=costs.size(x)))

    try:
        if problem.form is not None:
            return problem.cheapest(loss, 0.0)
        x = crossing(lambda x: predict(costs.size(x), tokens(x)) - loss, costs.low, costs.high)
    except (Refused, ArithmeticError):
        return None
    return x, tokens(x)


def _break_even(costs: Costs, x: float, compute: float, same: tuple[float, float]) -> float | None:
    """Tokens of use that make up for what training cost more."""
    saved = costs.use(same[0]) - costs.use(x)
    return (compute - costs.train(same[0]) * same[1]) / saved if saved > 0 else None
