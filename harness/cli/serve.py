"""`serve`: forecast a server, load it, and hold one against the other."""

from __future__ import annotations

import socket
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from calc.architectures.models import load_model
from calc.errors import Refused
from calc.output.tables import Table, emit
from calc.reading.numbers import Number
from calc.serve.answer import Answer, answer
from calc.serve.layout import layout_of
from calc.serve.machine import Machine, machine_rates
from calc.serve.service import Service, service_of
from calc.serve.workload import Workload, closed_loop, open_loop
from calc.spec.run.engines import engine_names
from calc.time.device.profile import profile_named, read_profile
from harness.serving.client import Load, drive, warm
from harness.serving.compare import comparison, keep, lines
from harness.serving.engines import LAUNCHES, launched
from harness.serving.tiny import make, prompt
from harness.store import RESULTS

TINY = "tiny"
"""The model that is made on the spot."""


@click.command(short_help="Forecast a server, load it with an existing client, compare.")
@click.option("--url", help="Of a server that speaks OpenAI's protocol, as http://127.0.0.1:8000/v1.")
@click.option("--launch", type=click.Choice(list(LAUNCHES)), help="Start this engine, and end it afterwards.")
@click.option("--model", required=True, help="A folder with a model and its tokenizer, or tiny: made on the spot.")
@click.option("--served-name", help="What the server calls it.  [default: --model]")
@click.option("--engine", type=click.Choice(engine_names()), help="Whose rules are forecast.  [default: --launch]")
@click.option("--gpu", help="The server's device, of the catalogue.")
@click.option("--profile", metavar="FILE", help="Or its measured profile, a file or a shipped one.")
@click.option("--tp", type=click.IntRange(1), default=1, show_default=True, help="GPUs that share each sequence.")
@click.option("--dtype", default="bf16", show_default=True, help="Of weights; fp32 with a profile that has it.")
@click.option("--input", "input_", type=click.IntRange(1, 2**20), default=128, show_default=True, help="Tokens.")
@click.option("--output", type=click.IntRange(1, 2**20), default=32, show_default=True, help="Tokens.")
@click.option("--concurrency", type=click.IntRange(1, 4096), help="Requests always under way.")
@click.option("--rate", type=Number(most=1e5, above=0), help="Requests a second.")
@click.option("--requests", type=click.IntRange(1, 10**6), default=50, show_default=True, help="How many.")
@click.option("--limit", type=Number(1), default=300.0, show_default=True, help="Seconds of load at most.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, show_default=True, help="Folder.")
@click.option("--json", "fmt", flag_value="json", default="table", help="One object.")
def serve(fmt: str, **given: Any) -> int:
    """Say first what clients will see of a server, then load it with guidellm, and print both side by side.

    All that was finished is kept in results/serving, whatever became of the server. Exit status: 1 where nothing was.

    \b
    Examples:
      python -m harness serve --launch transformers --model tiny \\
          --profile FILE --dtype fp32 --concurrency 4
      python -m harness serve --url http://127.0.0.1:8000/v1 \\
          --model path/to/model --gpu h100-sxm --concurrency 16
    """
    _check(given)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = given["model"]
        if model == TINY:
            make(folder / TINY)
            model = str(folder / TINY)
        service = _service(model, given)
        workload = _workload(given)
        forecast = answer(service, workload)
        address = given["url"] or stack.enter_context(
            launched(given["launch"], model, _free_port(), folder / "engine.log")
        )
        name, load = given["served_name"] or model, _load(given)
        warm(address, name, load.prompts[0], load.output)
        found = drive(address, name, model, load)
    rows = comparison(found, forecast)
    run = {name: value for name, value in given.items() if name != "results"}
    path = keep(given["results"], service.device.name, run, found, rows)
    _print(fmt, rows, len(found.answered), found.failed, path, forecast)
    return 0 if found.answered else 1


def _check(given: dict[str, Any]) -> None:
    for one, other in (("url", "launch"), ("concurrency", "rate"), ("gpu", "profile")):
        if (given[one] is None) == (given[other] is None):
            raise Refused(f"--{one}", f"--{one} or --{other}", "both" if given[one] is not None else "neither")


def _service(model: str, given: dict[str, Any]) -> Service:
    """The server as it is forecast."""
    config = Path(model, "config.json")
    spec = load_model(str(config) if config.is_file() else model)
    layout = layout_of(spec, tp=given["tp"])
    engine = given["engine"] or given["launch"]
    if engine is None:
        raise Refused("--engine", "an engine whose rules are forecast", "none")
    if given["gpu"] is not None:
        return service_of(spec, given["gpu"], layout, engine, given["dtype"])
    from harness.environment import host_memory

    file = Path(given["profile"])
    profile = read_profile(file) if file.is_file() else profile_named(given["profile"])
    made = service_of(spec, "h100-sxm", layout, engine, "bf16")
    rates = machine_rates(profile, given["dtype"], engine)
    return replace(made, device=Machine(profile.name, host_memory()), measured=rates)


def _workload(given: dict[str, Any]) -> Workload:
    lengths = (given["input_"], given["output"], given["requests"])
    if given["concurrency"] is not None:
        return closed_loop(given["concurrency"], *lengths)
    return open_loop(given["rate"], *lengths)


def _load(given: dict[str, Any]) -> Load:
    """Prompts of its own language for the tiny model, plain words for others."""
    texts = [prompt(given["input_"], seed) for seed in range(min(given["requests"], 256))]
    forced = given["launch"] in ("vllm", "sglang")
    return Load(texts, given["output"], given["requests"], given["concurrency"], given["rate"], given["limit"], forced)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def _print(fmt: str, rows: dict[str, Any], answered: int, failed: int, path: Path, forecast: Answer) -> None:
    note = f"{answered} answered, {failed} not; kept in {path}"
    record = {"compared": rows, "answered": answered, "failed": failed, "kept": str(path), "fits": forecast.fits}
    emit([record], [Table(("", "measured", "predicted"), list(lines(rows)), note=note)], fmt)
