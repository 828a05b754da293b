"""`serve`: what requests see of a model that is served on some GPUs by an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calc.cli import options
from calc.cli.guessing import guessing
from calc.cli.run_options import given as said
from calc.cli.serve_tables import record_of, tables_of
from calc.errors import Refused
from calc.output.notes import note, remark, warn_beyond
from calc.output.progress import Progress
from calc.output.tables import emit
from calc.reading.numbers import Number
from calc.serve.answer import Answer, answer, check_rate
from calc.serve.constants import fitted_engines
from calc.serve.layout import Layout, layout_of
from calc.serve.published import unlike_checkpoint
from calc.serve.saturation import overloaded_of
from calc.serve.service import Service, service_of
from calc.serve.workload import Workload, closed_count, closed_loop, open_loop, read_trace
from calc.spec import ModelSpec
from calc.spec.hardware import Device
from calc.units import parse_price

OPEN_REQUESTS, MOST_REQUESTS = 1000, 100_000
"""Of --rate, where nobody says how many: for each replica, and of all."""
BURSTIEST = 0.001
"""Of --burstiness: requests come in thousands at once."""
APART = ("prefill", "decode")
TOGETHER = ("tp", "pp", "ep", "moe_tp", "attention_dp")
"""How a server that both reads prompts and makes answers is laid out."""

WIRED = (
    "macOS lets a GPU have 74 to 84 % of its memory unless sysctl iogpu.wired_limit_mb says more, "
    "as is planned here: all that the engine may use"
)
"""11.84 of 16 GB on an M3 (github.com/AlexsJones/llmfit/pull/754), 107.5 of 128 GiB on an M5 Max and another
(github.com/antirez/ds4/pull/893), read 2026-11-29; Metal calls it recommendedMaxWorkingSetSize."""

IDLE = {
    "trace": ("input_", "output", "spread", "burstiness", "seed"),
    "concurrency": ("burstiness",),
}
"""What says who comes -> what changes nothing beside it: a trace has lengths and times of its own, and who waits for an
answer comes at no rate."""

COUNT = options.Tokens()


@click.command(short_help="Latencies, throughput and cost of a served model.")
@options.model
@click.option("--gpu", metavar="NAME", required=True, help="A device of the catalogue; `gpus` lists them.")
@click.option(
    "--gpus", type=COUNT, help="GPUs of all replicas, gpus / (tp * pp * attention-dp) of them.  [default: those of one]"
)
@click.option("--tp", type=COUNT, help="GPUs that share each sequence.  [default: all of --gpus, or 1]")
@click.option("--pp", type=COUNT, default=1, show_default=True, help="Stages of a pipeline.")
@click.option("--ep", type=COUNT, help="Ranks that experts are spread over, of those of tp and attention-dp.")
@click.option("--moe-tp", type=COUNT, help="Pieces of an expert; moe-tp * ep = tp * attention-dp.")
@click.option("--attention-dp", type=COUNT, default=1, show_default=True, help="Groups of tp GPUs with own sequences.")
@click.option("--prefill-gpus", type=COUNT, help="GPUs that only read prompts.")
@click.option("--prefill-tp", type=COUNT, default=1, show_default=True, help="tp of those.")
@click.option("--prefill-ep", type=COUNT, default=1, show_default=True, help="ep of those.")
@click.option("--decode-gpus", type=COUNT, help="GPUs that only make answers.")
@click.option("--decode-tp", type=COUNT, default=1, show_default=True, help="tp of those.")
@click.option("--decode-ep", type=COUNT, default=1, show_default=True, help="ep of those.")
@click.option("--engine", type=click.Choice(fitted_engines()), default="vllm", show_default=True, help="What serves.")
@click.option(
    "--dtype",
    default="bf16",
    show_default=True,
    metavar="FORMAT",
    help="Of weights: fp8, int4:g128, int4:g32:experts, q4_k_m …",
)
@click.option("--cache-dtype", metavar="FORMAT", help="Of keys and values.  [default: the engine's]")
@click.option("--input", "input_", type=COUNT, help="Tokens of a prompt.")
@click.option("--output", type=COUNT, help="Tokens of an answer.")
@click.option(
    "--spread",
    metavar="SHARE",
    type=Number(0, 2),
    help="Of lengths, about those named.  [default: the engine's]",
)
@click.option("--concurrency", type=COUNT, help="Requests always under way.")
@click.option("--rate", type=options.REQUESTS_A_SECOND, help="Requests a second, of clients that do not wait.")
@click.option(
    "--burstiness",
    type=Number(BURSTIEST, endless=True),
    default=1.0,
    show_default=True,
    help="Of --rate: 1 Poisson, less in bursts.",
)
@click.option("--trace", type=click.Path(path_type=Path), help="Requests of a trace: .csv or .jsonl, perhaps .gz.")
@click.option(
    "--requests", type=COUNT, help="How many requests.  [default: 10 a concurrency; 1000 a replica; the whole trace]"
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of lengths and times; the same, the same answer.")
@click.option("--batched-tokens", type=COUNT, help="Tokens of a step.  [default: the engine's]")
@click.option("--max-seqs", type=COUNT, help="Sequences at once.  [default: the engine's]")
@click.option("--guess", type=COUNT, help="Tokens guessed a step (MTP, EAGLE, a draft model).")
@click.option(
    "--acceptance",
    metavar="CHANCE",
    type=Number(0, 1),
    help="Chance that a guess is right; asked for by --guess.",
)
@click.option(
    "--guess-cost", metavar="SHARE", type=Number(0, 1), help="Of a pass, for one guess.  [default: one layer]"
)
@click.option("--price", metavar="PRICE", help="Of one GPU, such as 2/h.")
@options.working
@options.output
def serve(model: ModelSpec, fmt: str, **given: Any) -> int:
    """Predict what requests see of MODEL on GPUs under an engine: time to first token, time per token, throughput.

    Every step of the engine is put together from the model's program: weights read once, attention by the contexts at
    hand, prompts in what a step has left, sums between ranks, the host. Requests are simulated one by one; a steady
    rate beyond what can be answered is refused. The interval holds 90 of 100 measured means.
    docs/serving-measured.md says how wrong such answers were. Exit status 1: it does not fit.

    \b
    Examples:
      python -m calc serve llama-3-8b --gpu h100-sxm --input 1024 --output 256 \\
          --concurrency 16
      python -m calc serve llama-3-70b --gpu h200 --tp 4 --dtype fp8 \\
          --input 4096 --output 512 --rate 1
      python -m calc serve gpt-oss-120b --gpu b200 --dtype mxfp4 --input 1024 \\
          --output 512 --concurrency 8
      python -m calc serve llama-3-8b --gpu m2-ultra --engine llama.cpp \\
          --dtype q8_0 --input 512 --output 99 --rate 0.1
    """
    service, decode = _services(model, given)
    _refuse_idle(given)
    if given["spread"] is None:
        given["spread"] = service.engine.scatter
    workload = _workload(given, (decode or service).layout.replicas)
    if not model.decodes and max(each.output for each in workload.requests) > 1:
        raise Refused("--output", f"1, since {model.name} {model.why_whole}", given["output"] or "more")
    if given["rate"] is not None:
        check_rate(service, decode, given["rate"], workload.mean_input, workload.mean_output, given["spread"])
    price = None if given["price"] is None else parse_price(given["price"], "--price")
    progress = Progress()
    found = answer(service, workload, decode, given.pop("workers"), progress)
    progress.close()
    if given["rate"] is not None and decode is None and found.fits:
        _warn_of_overload(service, workload, given["rate"], found.capacity, given["spread"])
    _warn_of_lengths(model, workload, given)
    if unlike := unlike_checkpoint(model, [given["dtype"]]):
        note(model, unlike)
    if isinstance(service.device, Device) and service.device.vendor == "Apple":
        remark(WIRED)
    record = record_of(found, service, decode, workload, given, price)
    emit([record], tables_of([service, *([decode] if decode else [])], found, record), fmt)
    return _status(found)


def _warn_of_lengths(model: ModelSpec, workload: Workload, given: dict[str, Any]) -> None:
    """Say so where requests are longer than the model is made for: as they are named, not as they scatter."""
    if given["trace"] is None:
        warn_beyond(model, given["input_"] + given["output"], "--input + --output =")
    else:
        warn_beyond(model, max(each.input + each.output for each in workload.requests), "--trace's longest request =")


def _warn_of_overload(service: Service, workload: Workload, rate: float, capacity: float, spread: float) -> None:
    """Say so where a server that has fallen behind a rate does not catch up."""
    if rate < capacity / 2:
        return  # no overload answers so little
    replicas = service.layout.replicas
    most = overloaded_of(service, workload.mean_input, workload.mean_output, spread) * replicas
    if rate > most:
        again = "since requests that give way are read again"
        remark(f"once a burst has filled the cache {most:.4g} requests a second are answered, not --rate, {again}")


def _status(found: Answer) -> int:
    return 0 if found.fits else 1


def _services(model: ModelSpec, given: dict[str, Any]) -> tuple[Service, Service | None]:
    """What serves; where prompts and answers have GPUs of their own, the readers of prompts first."""
    words = (given["engine"], given["dtype"], given["cache_dtype"], given["batched_tokens"], given["max_seqs"])
    guess = guessing(model, given)
    apart = given["prefill_gpus"] is not None or given["decode_gpus"] is not None
    _check_apart(given, apart=apart)
    if not apart:
        layout = layout_of(model, **{name: given[name] for name in ("gpus", *TOGETHER)})
        return service_of(model, given["gpu"], layout, *words, guess), None
    if given["prefill_gpus"] is None or given["decode_gpus"] is None:
        raise Refused("--prefill-gpus", "--prefill-gpus and --decode-gpus together", "one of them")
    if given["gpus"] not in (None, given["prefill_gpus"] + given["decode_gpus"]):
        raise Refused("--gpus", "the sum of --prefill-gpus and --decode-gpus", given["gpus"])
    reading, making = (_layout_apart(model, given, kind) for kind in APART)
    return service_of(model, given["gpu"], reading, *words), service_of(model, given["gpu"], making, *words, guess)


def _layout_apart(model: ModelSpec, given: dict[str, Any], kind: str) -> Layout:
    """Of GPUs that only read prompts, or only make answers: experts over more ranks than share a sequence span several
    groups of attention. Errors: Refused, by the options of that kind, where numbers do not divide the model."""
    tp, ep = given[f"{kind}_tp"], given[f"{kind}_ep"]
    try:
        return layout_of(model, given[f"{kind}_gpus"], tp, attention_dp=max(ep // tp, 1), ep=ep)
    except Refused as error:
        raise Refused(f"--{kind}-{error.field.removeprefix('--')}", error.expected, error.found) from None


def _check_apart(given: dict[str, Any], *, apart: bool) -> None:
    """Errors: Refused for how servers of both are laid out where there are none, and for that of servers apart."""
    unheard = TOGETHER if apart else tuple(f"{kind}_{name}" for kind in APART for name in ("tp", "ep"))
    beside = "beside --prefill-gpus and --decode-gpus" if apart else "without --prefill-gpus and --decode-gpus"
    for name in unheard:
        if given[name] not in (None, 1):
            raise Refused(f"--{name.replace('_', '-')}", f"1 {beside}", given[name])


def _refuse_idle(given: dict[str, Any]) -> None:
    """Errors: Refused for an option that was said and changes nothing beside what says who comes."""
    idle = [(load, name) for load, names in IDLE.items() if given[load] is not None for name in names if said(name)]
    for load, name in idle:
        raise Refused(f"--{name.rstrip('_')}", f"none beside --{load}, in which it changes nothing", given[name])


def _workload(given: dict[str, Any], replicas: int) -> Workload:
    """What clients do; at a rate as many requests as fill every replica. Errors: Refused where it is not said in
    exactly one way."""
    named = [name for name in ("concurrency", "rate", "trace") if given[name] is not None]
    if len(named) != 1:
        raise Refused(
            "load", "one of --concurrency, --rate and --trace", " and ".join(f"--{each}" for each in named) or "none"
        )
    if given["trace"] is not None:
        return read_trace(given["trace"], given["requests"])
    for name in ("input", "output"):
        if given["input_" if name == "input" else name] is None:
            raise Refused(f"--{name}", "tokens, with --concurrency or --rate", "nothing")
    lengths = (given["input_"], given["output"])
    if given["concurrency"] is not None:
        count = given["requests"] or closed_count(given["concurrency"])
        return closed_loop(given["concurrency"], *lengths, count, given["spread"], given["seed"])
    count = given["requests"] or min(OPEN_REQUESTS * replicas, MOST_REQUESTS)
    return open_loop(given["rate"], *lengths, count, given["spread"], given["seed"], given["burstiness"])
