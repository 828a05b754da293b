"""`plan MODEL --serve`: which GPUs, spread how, shall serve a model; the front, the cheapest, and how to start it."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import click

from calc.architectures.models import preset_names
from calc.cli import options
from calc.cli.guessing import guessing
from calc.cli.plan_tables import end_as
from calc.errors import Refused
from calc.output.layout import continued
from calc.output.notes import remark, warn_beyond
from calc.output.progress import Progress
from calc.output.tables import Table, emit
from calc.plan.serving import search_serving
from calc.plan.serving_command import serve_command
from calc.plan.serving_minimum import least_that_serves
from calc.plan.serving_plan import Found, ServingPlan, Slo, Wish
from calc.serve.constants import fitted_engines
from calc.serve.launching import REPLICATED, TOOLS, cautions, launch
from calc.spec import ModelSpec
from calc.spec.catalogue import load_device
from calc.units import duration, parse_price

SHOWN = 12
"""Plans of the front that a table has."""
SPARE = ("tok/s/user", "tok/s/GPU")
"""Columns that a narrow terminal does without."""
_TIME = re.compile(r"(ttft|tpot)=(\d+(?:\.\d+)?)(ms|s)")


@click.command(name="plan", short_help="Which GPUs shall serve a model: the front, the cheapest that meets an SLO.")
@options.model
@click.option("--serve", is_flag=True, required=True, help="Plan serving and not training.")
@click.option("--on", required=True, type=options.Names(), help="Devices of the catalogue.")
@click.option(
    "--gpus",
    default="1..8",
    show_default=True,
    metavar="N|A..B",
    help="GPUs of one server: powers of two and both ends.",
)
@click.option("--input", "input_", type=options.Tokens(), required=True, help="Tokens of a prompt.")
@click.option("--output", type=options.Tokens(), required=True, help="Tokens of an answer.")
@click.option("--slo", default="", metavar="ttft=500ms,tpot=20ms", help="What means must meet.")
@click.option("--engine", type=options.Names(), default="vllm", show_default=True, help="Engines to choose among.")
@click.option("--dtype", type=options.Names(), default="bf16", show_default=True, help="Formats to choose among.")
@click.option("--batched-tokens", type=options.Counts(), help="Tokens of a step to choose among.")
@click.option("--apart", is_flag=True, help="Try GPUs for prompts and GPUs for answers too.")
@click.option("--guess", type=options.Tokens(), help="Tokens guessed a step (MTP, EAGLE, a draft model).")
@click.option(
    "--acceptance",
    metavar="CHANCE",
    type=click.FloatRange(0, 1),
    help="Chance that a guess is right; asked for by --guess.",
)
@click.option("--price", metavar="NAME=2/h,…", help="Of a GPU of each device an hour.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Requests a second: how many replicas?")
@click.option("--headroom", type=click.FloatRange(0, 0.9), default=0.2, show_default=True, help="Of --rate, left free.")
@click.option("--as", "tool", type=click.Choice(list(TOOLS)), help="Print what starts the best plan.")
@options.output
def plan_serving(model: ModelSpec, fmt: str, **given: Any) -> int:
    """Search how to serve MODEL: devices, layouts, formats, engines and loads; each timed in closed form as `serve`
    does.

    The front holds the plans that none beats in both tokens a second and GPU and tokens a second and user. The best is
    the cheapest that meets the SLO, or without prices that with the most tokens a second and GPU. Exit status 1: none.

    \b
    Examples:
      python -m calc plan llama-3-8b --serve --on h100-sxm,h200 --input 1024 \\
          --output 256 --slo tpot=20ms
    """
    wish = _wish(model, given)
    with closing(Progress()) as progress:
        found = search_serving(wish, progress)
    if found.interrupted and not found.front:
        click.echo("error: interrupted before any plan was timed", err=True)
        sys.exit(130)
    warn_beyond(model, wish.input + wish.output, "--input + --output =")
    record = _record(found, wish, given)
    record["command"] = _command(found.best or found.nearest, given, model)
    lines = _lines(found.best, given, model, record["replicas"]) if given["tool"] and found.best else []
    if given["tool"] and found.nearest is not None:
        remark("nothing is written: none meets the SLO")
    if fmt == "table" and (given["tool"] or not found.front):
        for line in lines:
            click.echo(line)  # alone and unbroken, so that it can be run
    else:
        emit([record | {"launch": lines}], _tables(found, record), fmt)
    end_as(found.interrupted)
    if not found.fitting:
        click.echo(f"error: {least_that_serves(wish)}", err=True)
    return 0 if found.best is not None else 1


def _wish(model: ModelSpec, given: dict[str, Any]) -> Wish:
    devices = [load_device(name).name for name in given["on"]]
    for name in given["engine"]:
        if name not in fitted_engines():
            raise Refused("--engine", f"of {', '.join(fitted_engines())}", name)
    guess, limits = guessing(model, given), slo(given["slo"])
    if limits.tpot is not None and given["output"] == 1:
        raise Refused("--slo", "ttft alone for answers of one token, which none follows", given["slo"])
    return Wish(
        model,
        devices,
        _range(given["gpus"]),
        given["input_"],
        given["output"],
        limits,
        given["engine"],
        given["dtype"],
        given["batched_tokens"] or (None,),
        guess if guess.tokens else None,
        _prices(given["price"], devices),
        given["apart"],
    )


def _range(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,5})(?:\.\.(\d{1,5}))?", text)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= low <= high:
        raise Refused("--gpus", "a number, or two with .. between them", text)
    return low, high


def slo(text: str) -> Slo:
    """What is to be met, of text such as "ttft=500ms,tpot=20ms". Errors: Refused for other text."""
    found = {}
    for part in filter(None, text.split(",")):
        match = _TIME.fullmatch(part)
        if match is None:
            raise Refused("--slo", "ttft=TIME or tpot=TIME with commas between them, such as tpot=20ms", part)
        name, seconds = match[1], float(match[2]) * (1e-3 if match[3] == "ms" else 1.0)
        if name in found or seconds <= 0:
            raise Refused("--slo", "each time once, and above 0", text)
        found[name] = seconds
    return Slo(**found)


def _prices(text: str | None, devices: list[str]) -> dict[str, float] | None:
    if text is None:
        return None
    found = {}
    for part in text.split(","):
        name, equals, price = part.partition("=")
        if not equals:
            return dict.fromkeys(devices, parse_price(part, "--price"))
        found[load_device(name).name] = parse_price(price, "--price")
    return found


def _record(found: Found, wish: Wish, given: dict[str, Any]) -> dict[str, Any]:
    best, nearest = found.best, found.nearest
    replicas = None
    if best is not None and given["rate"] is not None:
        replicas = best.replicas_for(given["rate"], given["headroom"])
    return {
        "model": wish.spec.name,
        "best": None if best is None else plan_record(best),
        "nearest": None if nearest is None else plan_record(nearest),
        "simulated": wish.slo.asks,
        "replicas": replicas,
        "front": [plan_record(plan) for plan in found.front],
        "tried": found.tried,
        "layouts": found.layouts,
        "fitting": found.fitting,
    }


def plan_record(plan: ServingPlan) -> dict[str, Any]:
    """What scripts read of one plan: its device, layout and load; seconds, and tokens and requests a second."""
    service = plan.services[-1]
    return {
        "device": service.device.name,
        "engine": service.engine.name,
        "dtype": service.form.name,
        "gpus": plan.gpus,
        "layout": " + ".join(map(_layout, plan.services)),
        "batched_tokens": service.budget,
        "concurrency": plan.concurrency,
        "ttft": plan.ttft,
        "tpot": plan.tpot,
        "tokens_per_gpu": plan.per_gpu,
        "tokens_per_user": plan.per_user,
        "requests": plan.requests,
        "cost_per_million_output_with_input": plan.cost,
    }


def _layout(service: Any) -> str:
    layout = service.layout
    words = [
        f"tp{layout.tp}",
        f"pp{layout.pp}" * (layout.pp > 1),
        f"dp{layout.attention_dp}" * (layout.attention_dp > 1),
        f"ep{layout.ep}" * (layout.ep > 1),
    ]
    return f"{layout.replicas}x" * (layout.replicas > 1) + "-".join(filter(None, words))


def _command(plan: ServingPlan | None, given: dict[str, Any], model: ModelSpec) -> str | None:
    if plan is None:
        return None
    guessed = ("guess", "acceptance", "guess_cost")
    more = [f"--{name.replace('_', '-')}={given[name]}" for name in guessed if given.get(name) is not None]
    return serve_command(plan, options.reference_of(model), given["input_"], [*options.read_as(), *more])


def _lines(plan: ServingPlan, given: dict[str, Any], model: ModelSpec, replicas: int | None) -> list[str]:
    """What starts a plan: one of it, or as many as a rate takes where the tool starts several."""
    running = [max(int(plan.concurrency), 1)] * len(plan.services)
    reference = options.reference_of(model)
    for caution in cautions(given["tool"], plan.services):
        remark(caution)
    if reference in preset_names():
        remark(f"{reference} is a name of ours: put the checkpoint's path or Hub id in its place")
    services = plan.services
    if replicas is not None and given["tool"] in REPLICATED:
        layouts = [replace(each.layout, replicas=replicas * each.layout.replicas) for each in services]
        services = tuple(replace(each, layout=layout) for each, layout in zip(services, layouts, strict=True))
    elif replicas is not None:
        remark(f"this starts one server; {_for_rate(plan, replicas)}")
    return launch(given["tool"], reference, services, given["input_"] + given["output"], running)


def _tables(found: Found, record: dict[str, Any]) -> list[Table]:
    priced = any(plan.cost is not None for plan in found.front)
    columns = ("device", "GPUs", "layout", "format", "users", "ttft", "tpot", "tok/s/GPU", "tok/s/user")
    columns += ("price/M",) * priced
    step = max(1, -(-len(found.front) // SHOWN))
    note = f"{found.tried:,} plans of the {found.fitting} of {found.layouts} layouts that hold the model\n"
    note += "in closed form, as if prompts never came together"
    if priced:
        note += "\nprice/M: of a million tokens of answers, with their prompts"

    def table(plans: Sequence[ServingPlan], title: str, note: str) -> Table:
        return Table(columns, [_row(plan)[: len(columns)] for plan in plans], title, note, SPARE)

    tables = [table(found.front[::step], f"{record['model']}: the front", note)]
    if found.nearest is not None:
        title = "none meets the SLO; the nearest, every request simulated"
        return [*tables, table([found.nearest], title, continued(record["command"] or ""))]
    if found.best is None:  # interrupted, or no layout holds the model
        return tables
    title = "the cheapest" if found.best.cost is not None else "most tokens a GPU"
    if record["simulated"]:
        title += " that meets the SLO, every request simulated"
    more = "" if record["replicas"] is None else _for_rate(found.best, record["replicas"])
    note = "\n".join(filter(None, (more, continued(record["command"] or ""))))
    return [*tables, table([found.best], title, note)]


def _for_rate(plan: ServingPlan, replicas: int) -> str:
    """How many of a plan answer the rate that was asked, on how many GPUs, for how much."""
    gpus = replicas * plan.gpus
    cost = "" if plan.price is None else f", {plan.price * gpus:,.0f} an hour"
    return f"for the rate, with headroom, {replicas:,} of it: {gpus:,} GPUs{cost}"


def _row(plan: ServingPlan) -> tuple[str, ...]:
    own = plan_record(plan)
    return (
        own["device"],
        f"{plan.gpus}",
        own["layout"],
        own["dtype"],
        f"{max(int(plan.concurrency), 1):,}",
        duration(plan.ttft),
        duration(plan.tpot),
        f"{plan.per_gpu:,.0f}",
        f"{plan.per_user:,.0f}",
        "–" if plan.cost is None else f"{plan.cost:,.3g}",
    )
