"""`plan MODEL --serve`: which GPUs, spread how, shall serve a model; the front, the cheapest, and how to start it."""

from __future__ import annotations

import re
import sys
from contextlib import closing
from dataclasses import replace
from typing import Any

import click

from calc.architectures.models import preset_names
from calc.cli import options
from calc.cli.guessing import guessing
from calc.cli.plan_serving_tables import answer_record, for_rate, serving_tables
from calc.cli.plan_tables import end_as
from calc.cli.run_options import given as said
from calc.errors import Refused
from calc.output.notes import note, remark, warn_beyond
from calc.output.progress import Progress
from calc.output.tables import emit
from calc.plan.serving import search_serving
from calc.plan.serving_command import serve_command
from calc.plan.serving_minimum import least_that_serves
from calc.plan.serving_plan import ServingPlan, Slo, Wish
from calc.reading.numbers import Number
from calc.serve.constants import fitted_engines
from calc.serve.launching import REPLICATED, TOOLS, cautions, check_apart, launch
from calc.serve.published import unlike_checkpoint
from calc.spec import ModelSpec
from calc.spec.catalogue import load_device
from calc.units import parse_price

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
@click.option("--batched-tokens", type=options.Counts(1), help="Tokens of a step to choose among.")
@click.option("--apart", is_flag=True, help="Try GPUs for prompts and GPUs for answers too.")
@click.option("--guess", type=options.Tokens(), help="Tokens guessed a step (MTP, EAGLE, a draft model).")
@click.option(
    "--acceptance",
    metavar="CHANCE",
    type=Number(0, 1),
    help="Chance that a guess is right; asked for by --guess.",
)
@click.option("--price", metavar="NAME=2/h,…", help="Of a GPU of each device an hour.")
@click.option("--rate", type=options.REQUESTS_A_SECOND, help="Requests a second: how many replicas?")
@click.option("--headroom", type=Number(0, 0.9), default=0.2, show_default=True, help="Of --rate, left free.")
@click.option("--as", "tool", type=click.Choice(list(TOOLS)), help="Print what starts the best plan that it can start.")
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
    if unlike := unlike_checkpoint(model, wish.dtypes):
        note(model, unlike)
    if found.best is not None and not wish.slo.asks:
        remark("no --slo was given, such as ttft=500ms,tpot=20ms: the best may keep its users waiting for very long")
    replicas = None
    if found.best is not None and given["rate"] is not None:
        replicas = found.best.replicas_for(given["rate"], given["headroom"])
    record = answer_record(found, wish, replicas)
    record["command"] = _command(found.best or found.nearest, given, model)
    lines = _lines(found.best, given, model, replicas) if given["tool"] and found.best else []
    if found.beyond_tool:
        remark(f"{found.beyond_tool} of {found.layouts} layouts are left out, which {given['tool']} does not start")
    if given["tool"] and found.nearest is not None:
        remark("nothing is written: none meets the SLO")
    if fmt == "table" and (given["tool"] or not found.front):
        for line in lines:
            click.echo(line)  # alone and unbroken, so that it can be run
    else:
        emit([record | {"launch": lines}], serving_tables(found, record), fmt)
    end_as(found.interrupted)
    if not found.fitting:
        click.echo(f"error: {least_that_serves(wish)}", err=True)
    return 0 if found.best is not None else 1


def _wish(model: ModelSpec, given: dict[str, Any]) -> Wish:
    devices = [load_device(name).name for name in given["on"]]
    for name in given["engine"]:
        if name not in fitted_engines():
            raise Refused("--engine", f"of {', '.join(fitted_engines())}", name)
    if given["rate"] is None and said("headroom"):
        raise Refused("--headroom", "none without --rate, of which it is left free", given["headroom"])
    if given["tool"] is not None and given["apart"]:
        check_apart(given["tool"])
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
        given["tool"],
    )


def _range(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,5})(?:\.\.(\d{1,5}))?", text)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= low <= high:
        raise Refused("--gpus", "a number above 0, or two with .. between them, the smaller first", text)
    return low, high


def slo(text: str) -> Slo:
    """What is to be met, of text such as "ttft=500ms,tpot=20ms". Errors: Refused for other text."""
    found = {}
    for part in filter(None, text.split(",")):
        match = _TIME.fullmatch(part)
        if match is None:
            raise Refused(
                "--slo", "ttft=TIME or tpot=TIME in ms or s, with commas between them, such as tpot=20ms", part
            )
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
            return dict.fromkeys(devices, _price(part))
        found[load_device(name).name] = _price(price)
    return found


def _price(text: str) -> float:
    """Errors: Refused for 0 too: of plans that cost nothing none is the cheapest."""
    price = parse_price(text, "--price")
    if price == 0:
        raise Refused("--price", "a price above 0, or no --price where GPUs cost nothing", text)
    return price


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
    elif reference.endswith(".json"):
        remark(f"{reference} is a config alone: put the folder or Hub id of its checkpoint in its place")
    services = plan.services
    if replicas is not None and given["tool"] in REPLICATED:
        layouts = [replace(each.layout, replicas=replicas * each.layout.replicas) for each in services]
        services = tuple(replace(each, layout=layout) for each, layout in zip(services, layouts, strict=True))
    elif replicas is not None:
        remark(f"this starts one server; {for_rate(plan, replicas)}")
    return launch(given["tool"], reference, services, given["input_"] + given["output"], running)
