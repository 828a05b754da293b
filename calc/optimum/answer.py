"""`optimal`: one question to a scaling law, and all that its answer stands for."""

from __future__ import annotations

import math
from typing import Any, Unpack

from calc.errors import Refused
from calc.laws import DEFAULT, find
from calc.laws.arithmetic import real
from calc.laws.base import Frontier, Law
from calc.laws.hyperparameters import every, hyperparameters
from calc.laws.muennighoff import MUENNIGHOFF
from calc.laws.parametric import Parametric
from calc.laws.surface import SurfaceFrontier
from calc.laws.tao import best_vocabulary
from calc.laws.uncertainty import Interval
from calc.optimum.bands import bands, source
from calc.optimum.budget import Machines, machines
from calc.optimum.costs import as_fitted, of_family, plain
from calc.optimum.question import GIVEN, ROUTING, Optimum, OptimumRequest
from calc.optimum.routing import knows, measures, of_model
from calc.optimum.search import Problem
from calc.workers.job import Progress


def optimal(
    law: str = DEFAULT, progress: Progress | None = None, intervals: bool = True, **request: Unpack[OptimumRequest]
) -> Optimum:
    """The compute-optimal model that `law` asks for.

    progress: told of the draws that intervals are searched in. intervals: whether they are wanted: with
    `inference_tokens`, `unique_tokens` or a family every draw takes a search of its own.

    Errors: Refused for an unknown law, for a law that does not say what is optimal, unless exactly one of GIVEN is
    there, for numbers that are not above 0, for a loss out of reach, and as `calc.optimum.budget` and `costs`.
    """
    entry = routed(find(law), request)
    given = [name for name in GIVEN if request.get(name) is not None]
    if len(given) != 1:
        expected = "one of " + ", ".join(f"--{name.replace('_', '-')}" for name in GIVEN)
        raise Refused("optimal", expected, " and ".join(given) or "none")
    for name in (*GIVEN, "inference_tokens", "unique_tokens"):
        amount: Any = request.get(name)
        if amount is not None:
            real(f"--{name.replace('_', '-')}", amount)
    hired = machines(request.get("gpu"), request.get("mfu"), request.get("gpus"), request.get("price"))
    problem = problem_of(entry, request)
    try:
        return _solved(problem, *_budget(given[0], request, hired), request, hired, progress, intervals)
    except (OverflowError, ZeroDivisionError):
        expected = "a number whose optimum is above 0 and below 1e308"
        raise Refused(f"--{given[0].replace('_', '-')}", expected, request[given[0]]) from None


def _solved(
    problem: Problem,
    name: str,
    amount: float,
    request: OptimumRequest,
    hired: Machines | None,
    progress: Progress | None,
    intervals: bool,
) -> Optimum:
    if name != "compute" and not problem.plain:
        raise Refused(f"--{name}", "compute, GPU-days or money beside --family, --unique-tokens or --corpus", amount)
    if name == "loss" and problem.frontier.k is None:
        raise Refused("--law", "a law that predicts a loss along its optima", problem.law.name)
    used = request.get("inference_tokens")
    compute = problem.frontier.compute(**{name: amount}) if name != "compute" else amount
    spent = name == "compute"
    x, tokens, more = _best(problem, compute, used, spent)
    exact: OptimumRequest = {name: amount, "compute": compute} if spent or used is None else {}  # pyright: ignore[reportAssignmentType] (name is one of its keys)

    def numbers(drawn: Problem) -> dict[str, float | None]:
        c = drawn.frontier.compute(**{name: amount}) if name != "compute" else amount
        at, d, others = _best(drawn, c, used, spent)
        return _numbers(drawn, at, d, name if spent or used is None else "") | others

    known: dict[str, Interval] = {}
    if intervals:
        closed = problem.plain and used is None
        known = _intervals(problem, name, amount) if closed else bands(problem, numbers, progress)
    return _answer(problem, x, tokens, exact, hired, more, known)


def _best(problem: Problem, compute: float, used: float | None, spent: bool) -> tuple[float, float, dict[str, float]]:
    """x and tokens for so many FLOPs of training; with use, the cheapest with it of their loss.

    spent: whether training is to take those FLOPs with use too, instead of what the loss then takes.
    """
    if used is None:
        return *problem.best(compute), {}
    problem.wanted("--inference-tokens")
    return _with_use(problem, *problem.best(problem.before_use(compute, used) if spent else compute), used)


def _numbers(problem: Problem, x: float, tokens: float, given: str) -> dict[str, float | None]:
    """What an answer says of the model at x, but for what was given."""
    params = problem.costs.size(x)
    loss = problem.loss(params, tokens) if problem.form else None
    found: dict[str, float | None] = {
        "compute": problem.costs.train(x) * tokens,
        "params": params,
        "tokens": tokens,
        "loss": loss,
        "tokens_per_param": tokens / params,
    }
    if problem.unique_tokens is not None:
        found["epochs"] = tokens / min(tokens, problem.unique_tokens)
    return {name: value for name, value in found.items() if name != given and value is not None}


def routed(law: Law, request: OptimumRequest) -> Law:
    """The law of the routing that is asked for, or that a family has. Errors: Refused for experts that it knows not."""
    family, routing = request.get("family"), {name: request.get(name) for name in ROUTING}
    knows(law, routing)
    if family is None:
        return law.at(**routing)
    family = as_fitted("--family", family)
    law.at(**routing)  # what the law does not know is refused in its own words
    return law.at(
        **of_model("--family", family, law) | {name: value for name, value in routing.items() if value is not None}
    )


def problem_of(law: Law, request: OptimumRequest) -> Problem:
    """What is minimised for a question, as far as it goes beyond its one amount."""
    family, seq = request.get("family"), request.get("seq")
    if family is None and seq is not None:
        raise Refused("--seq", "--family beside it: 6 N D does not depend on the sequence", seq)
    costs = plain(law) if family is None else of_family(family, seq or 2048, law.counts)
    routing = of_model("--family", family, law) if family is not None else {}
    routing |= {name: value for name in law.routing if (value := request.get(name)) is not None}
    return Problem(law, costs, request.get("unique_tokens"), routing)


def _budget(name: str, request: OptimumRequest, hired: Machines | None) -> tuple[str, float]:
    """The question as compute, params, tokens or loss."""
    amount = float(request[name])
    if name not in ("gpu_days", "money"):
        return name, amount
    if hired is None:
        raise Refused("--gpu", f"a device and --mfu beside --{name.replace('_', '-')}", "none")
    return "compute", hired.compute(**{name: amount})


def _with_use(problem: Problem, x: float, tokens: float, used: float) -> tuple[float, float, dict[str, float]]:
    """x and tokens of the same loss, cheapest in training and use together, and how they compare with x and tokens."""
    costs = problem.costs
    same = problem.loss(costs.size(x), tokens)
    before = costs.train(x) * tokens + costs.use(x) * used
    best, needed = problem.cheapest(same, used)
    total = costs.train(best) * needed + costs.use(best) * used
    plain = {"plain_compute": costs.train(x) * tokens, "plain_params": costs.size(x)}
    ratios = {"total_compute": total, "cost_ratio": total / before, "tokens_ratio": needed / tokens}
    return best, needed, plain | ratios


def _answer(
    problem: Problem,
    x: float,
    tokens: float,
    given: OptimumRequest,
    hired: Machines | None,
    more: dict[str, float],
    known: dict[str, Interval],
) -> Optimum:
    """The answer at x. given: the question first, and what else stands; empty where use moved everything. more: what
    use changed.

    known: the bands of its numbers.
    """
    law, costs, used = problem.law, problem.costs, bool(more)
    params, tokens = given.get("params", costs.size(x)), given.get("tokens", tokens)
    compute = given.get("compute", costs.train(x) * tokens)
    loss = given.get("loss", problem.loss(params, tokens) if problem.form else problem.frontier.loss(compute))
    if min(params, tokens) < 1:
        small = f"{params:.3g} parameters on {tokens:.3g} tokens"
        field = next((f"--{name.replace('_', '-')}" for name in GIVEN if name in given), "optimal")
        raise Refused(field, "a question whose optimum has a parameter and a token at least", small)
    own = costs.without(x) if costs.exact else None
    chosen = hyperparameters(law, compute, params, tokens, own, problem.routing.get("experts"))
    routing = {**(measures(costs.exact) if costs.exact else {}), **problem.routing}
    outside = law.outside(params=params, tokens=tokens, compute=compute, **routing)
    if problem.unique_tokens is not None:
        more["epochs"] = tokens / min(tokens, problem.unique_tokens)
        outside += MUENNIGHOFF.outside(epochs=more["epochs"])
    warnings = outside + ((law.second_hand,) if law.second_hand else ())
    if costs.exact is not None:
        more["scale"] = x
        more["vocab_params"] = best_vocabulary(costs.without(x), compute)
        warnings += (law.inexact,) if law.inexact else ()
    return Optimum(
        law=law.name,
        compute=compute,
        params=params,
        tokens=tokens,
        loss=loss,
        batch_tokens=chosen.batch_tokens,
        learning_rate=chosen.learning_rate,
        hyperparameters=chosen.rule,
        convention=_convention(problem),
        in_range=not outside,
        warnings=warnings,
        interval=known,
        interval_source=source(problem),
        deviation=_deviations(problem) if problem.plain and not used else {},
        more=more | (hired.needs(compute) if hired else {}),
        routing=problem.routing,
        rules=every(law, compute, params, tokens, own),
    )


def _deviations(problem: Problem) -> dict[float, float]:
    """Of half and twice the best size; empty where the law says nothing of other sizes."""
    law, form = problem.law, problem.form
    if isinstance(form, Parametric):
        return {factor: form.deviation(factor) for factor in (0.5, 2.0)}
    return {factor: law.deviation(law.k, factor) for factor in (0.5, 2.0)} if law.deviation else {}


def _convention(problem: Problem) -> str:
    law, costs = problem.law, problem.costs
    compute = law.compute if costs.exact is None else f"exact FLOPs of {costs.exact.name} in sequences of {costs.seq}"
    repeated = "" if problem.unique_tokens is None else "; repeated tokens: Muennighoff et al. 2023, equation 6"
    return f"N: {law.params}; C: {compute}; D: {law.tokens}{repeated}"


def _intervals(problem: Problem, given: str, amount: float) -> dict[str, Interval]:
    """The band of every number of an optimum but the one that is given, in closed form."""

    def numbers(drawn: Problem) -> dict[str, float | None]:
        line = drawn.frontier
        # A loss below a draw's own floor takes more compute than there is.
        beyond = given == "loss" and amount <= line.floor
        compute = math.inf if beyond else amount if given == "compute" else line.compute(**{given: amount})
        found = {
            "compute": compute,
            "params": line.params(compute),
            "tokens": line.tokens(compute),
            "loss": line.loss(compute),
            "tokens_per_param": _ratio(line, compute),
        }
        return {name: value for name, value in found.items() if name != given}

    return bands(problem, numbers)


def _ratio(line: Frontier | SurfaceFrontier, compute: float) -> float:
    """Tokens a parameter; of powers also at a compute that is infinite."""
    if isinstance(line, Frontier):
        return line.d / line.n * compute ** (line.b - line.a)
    return line.tokens(compute) / line.params(compute)
