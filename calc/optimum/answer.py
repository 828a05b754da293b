"""`optimal`: one question to a scaling law, and all that its answer stands for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, Unpack

from calc.errors import Refused
from calc.laws import DEFAULT, LAWS, find
from calc.laws.arithmetic import real
from calc.laws.base import Frontier, Law
from calc.laws.hyperparameters import every, hyperparameters
from calc.laws.muennighoff import MUENNIGHOFF
from calc.laws.parametric import Parametric
from calc.laws.surface import SurfaceFrontier
from calc.laws.uncertainty import Interval
from calc.optimum.bands import bands, source
from calc.optimum.budget import Machines, machines
from calc.optimum.costs import as_fitted, of_family, plain
from calc.optimum.routing import measures, of_model
from calc.optimum.search import Problem
from calc.spec import ModelSpec

GIVEN = ("compute", "params", "tokens", "loss", "gpu_days", "money")
"""What an optimum may be asked for; exactly one of them."""


class Asked(TypedDict, total=False):
    """The question: one of GIVEN, and what goes beyond it.

    compute: FLOPs of training. params: N as the law counts it. tokens: D. loss: nats a token of the law's own data.
    gpu_days, money: with gpu (a device of the catalogue), mfu (0 to 1) and, for money, price (of a GPU-hour). gpus: how
    many, for the days that the run takes. family: a model whose shape is scaled and whose FLOPs are counted exactly,
    in sequences of `seq` tokens. inference_tokens: tokens of use; the answer then has the optimum's loss for the fewest
    FLOPs of training and use together. unique_tokens: more tokens than these are repeated ones. experts, granularity,
    sparsity: of a law of experts (`Law.routing`); a family has its own.
    """

    compute: float
    params: float
    tokens: float
    loss: float
    gpu_days: float
    money: float
    gpu: str
    mfu: float
    gpus: int
    price: float
    family: ModelSpec
    seq: int
    inference_tokens: float
    unique_tokens: float
    experts: float
    granularity: float
    sparsity: float


ROUTING = ("experts", "granularity", "sparsity")
"""What is asked of experts beside an amount."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """A law's answer. compute: FLOPs of training. loss: None where the law predicts none.

    interval: by the names of this class's numbers, what the law's own uncertainty leaves open; what is not in it has no
    known uncertainty or was given. interval_source: where it is from, or why there is none.
    convention: what N, C and D count in it. in_range: whether all three lie in what the law was fitted on; warnings say
    what does not, and more. deviation: factor on N -> compute over the least for the same loss.
    hyperparameters: whose rule gave batch_tokens and learning_rate. more: what else was asked for: gpu_days, days,
    cost, epochs, plain_compute and plain_params (of the optimum without use,
    whose loss this one has), total_compute, cost_ratio, tokens_ratio, scale (of the family's width and depth).
    routing: of a law of experts, the routing that was asked for or that the family has. rules: batch in tokens and
    learning rate by every rule that is known (`calc.laws.hyperparameters.every`).
    """

    law: str
    compute: float
    params: float
    tokens: float
    loss: float | None
    batch_tokens: float
    learning_rate: float | None
    hyperparameters: str
    convention: str
    in_range: bool
    warnings: tuple[str, ...]
    interval: Mapping[str, Interval]
    interval_source: str
    deviation: Mapping[float, float]
    more: Mapping[str, float] = field(default_factory=dict)
    routing: Mapping[str, float] = field(default_factory=dict)
    rules: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def tokens_per_param(self) -> float:
        return self.tokens / self.params


def optimal(law: str = DEFAULT, **asked: Unpack[Asked]) -> Optimum:
    """The compute-optimal model that `law` asks for.

    Errors: Refused for an unknown law, for a law that does not say what is optimal, unless exactly one of GIVEN is
    there, for numbers that are not above 0, for a loss out of reach, and as `calc.optimum.budget` and `costs`.
    """
    entry = routed(find(law), asked)
    given = [name for name in GIVEN if asked.get(name) is not None]
    if len(given) != 1:
        expected = "one of " + ", ".join(f"--{name.replace('_', '-')}" for name in GIVEN)
        raise Refused("optimal", expected, " and ".join(given) or "none")
    for name in (*GIVEN, "inference_tokens", "unique_tokens"):
        amount: Any = asked.get(name)
        if amount is not None:
            real(f"--{name.replace('_', '-')}", amount)
    hired = machines(asked.get("gpu"), asked.get("mfu"), asked.get("gpus"), asked.get("price"))
    problem = problem_of(entry, asked)
    try:
        return _solved(problem, *_budget(given[0], asked, hired), asked, hired)
    except (OverflowError, ZeroDivisionError):
        expected = "a number whose optimum is above 0 and below 1e308"
        raise Refused(f"--{given[0].replace('_', '-')}", expected, asked[given[0]]) from None


def _solved(problem: Problem, name: str, amount: float, asked: Asked, hired: Machines | None) -> Optimum:
    if name != "compute" and not problem.plain:
        raise Refused(f"--{name}", "compute, GPU-days or money beside --family, --unique-tokens or --corpus", amount)
    if name == "loss" and problem.frontier.k is None:
        raise Refused("--law", "a law that predicts a loss along its optima", problem.law.name)
    used = asked.get("inference_tokens")
    compute = problem.frontier.compute(**{name: amount}) if name != "compute" else amount
    x, tokens, more = _best(problem, compute, used)
    exact: Asked = {name: amount, "compute": compute} if used is None else {}  # pyright: ignore[reportAssignmentType] (name is one of its keys)

    def numbers(drawn: Problem) -> dict[str, float | None]:
        c = drawn.frontier.compute(**{name: amount}) if name != "compute" else amount
        at, d, others = _best(drawn, c, used)
        return _numbers(drawn, at, d, name if used is None else "") | others

    known = _intervals(problem, name, amount) if problem.plain and used is None else bands(problem, numbers)
    answer = _answer(problem, x, tokens, exact, hired, more, known)
    return answer if used is None else replace(answer, warnings=(*answer.warnings, *_spent(answer, asked)))


def _best(problem: Problem, compute: float, used: float | None) -> tuple[float, float, dict[str, float]]:
    """x and tokens for so many FLOPs of training; with use, of their loss but cheapest with it."""
    x, tokens = problem.best(compute)
    return (x, tokens, {}) if used is None else _with_use(problem, x, tokens, used)


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


def _spent(answer: Optimum, asked: Asked) -> Iterator[str]:
    """That training takes more or less than the budget that was asked about, whose optimum gives the loss alone."""
    for name, taken, unit in (
        ("compute", answer.compute, "FLOP"),
        ("gpu_days", answer.more.get("gpu_days"), "GPU-days"),
        ("money", answer.more.get("cost"), ""),
    ):
        given: Any = asked.get(name)
        if given is not None and taken is not None:
            took = f"{taken / given:.3g} times that ({taken:,.4g}{' ' * bool(unit)}{unit})"
            yield f"--{name.replace('_', '-')} fixes the loss, not what is spent: training this model takes {took}"


def routed(law: Law, asked: Asked) -> Law:
    """The law of the routing that is asked for, or that a family has. Errors: Refused for experts that it knows not."""
    family, said = asked.get("family"), {name: asked.get(name) for name in ROUTING}
    if family is None:
        return law.at(**said)
    as_fitted("--family", family)
    law.at(**said)  # what the law does not know is refused in its own words
    return law.at(
        **of_model("--family", family, law) | {name: value for name, value in said.items() if value is not None}
    )


def optimal_all(**asked: Unpack[Asked]) -> list[Optimum | tuple[Law, str]]:
    """The answer of every law that says what is optimal, variants left out; or the law and why it has none."""
    found: list[Optimum | tuple[Law, str]] = []
    for law in LAWS:
        if (law.frontier is None and law.routed is None) or law.variant_of is not None:
            continue
        if law.routing and not any(asked.get(name) is not None for name in (*law.routing, "family")):
            continue  # a law of experts has an answer for a routing alone
        try:
            found.append(optimal(law.name, **asked))
        except Refused as refused:
            found.append((law, str(refused)))
    if all(isinstance(each, tuple) for each in found):
        optimal(**asked)  # the default law's own words say best what is wrong with the question
    return found


def spread(answers: Sequence[Optimum | tuple[Law, str]]) -> dict[str, dict[str, float]]:
    """How far laws lie apart: lowest and highest of each number, and their ratio; superseded laws are left out, unless
    there are no others.

    Losses are left out: those of different laws speak of different data.
    """
    found = [answer for answer in answers if isinstance(answer, Optimum)]
    found = [answer for answer in found if not find(answer.law).superseded] or found
    ends: dict[str, dict[str, float]] = {}
    for name in ("compute", "params", "tokens", "tokens_per_param"):
        low, high = (pick(getattr(answer, name) for answer in found) for pick in (min, max))
        ends[name] = {"low": low, "high": high, "ratio": high / low}
    return ends


def left_out(answers: Sequence[Optimum | tuple[Law, str]]) -> list[str]:
    """Names of the superseded laws that `spread` leaves out."""
    names = [answer.law for answer in answers if isinstance(answer, Optimum)]
    old = [name for name in names if find(name).superseded]
    return old if len(old) < len(names) else []


def problem_of(law: Law, asked: Asked) -> Problem:
    """What is minimised for a question, as far as it goes beyond its one amount."""
    family, seq = asked.get("family"), asked.get("seq")
    if family is None and seq is not None:
        raise Refused("--seq", "--family beside it: 6 N D does not depend on the sequence", seq)
    costs = plain(law) if family is None else of_family(family, seq or 2048, law.counts)
    routing = of_model("--family", family, law) if family is not None else {}
    routing |= {name: value for name in law.routing if (value := asked.get(name)) is not None}
    return Problem(law, costs, asked.get("unique_tokens"), routing)


def _budget(name: str, asked: Asked, hired: Machines | None) -> tuple[str, float]:
    """The question as compute, params, tokens or loss."""
    amount = float(asked[name])
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
    given: Asked,
    hired: Machines | None,
    more: dict[str, float],
    known: dict[str, Interval],
) -> Optimum:
    """The answer at x. given: the question first, and what else stands; empty where use moved everything.

    known: the bands of its numbers.
    """
    law, costs = problem.law, problem.costs
    params, tokens = given.get("params", costs.size(x)), given.get("tokens", tokens)
    compute = given.get("compute", costs.train(x) * tokens)
    loss = given.get("loss", problem.loss(params, tokens) if problem.form else problem.frontier.loss(compute))
    if min(params, tokens) < 1:
        small = f"{params:.3g} parameters on {tokens:.3g} tokens"
        raise Refused("optimal", "a question whose optimum has a parameter and a token at least", small)
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
        deviation=_deviations(problem) if problem.plain and given else {},
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
