"""The first page: one model on one device, and the five answers that people come for, with a way into each page."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

import streamlit as st

from calc.ask.estimate import estimate
from calc.ask.report import report
from calc.errors import Refused
from calc.serve.answer import answer
from calc.serve.layout import layout_of
from calc.serve.service import service_of
from calc.serve.workload import closed_loop
from calc.spec import ModelSpec
from calc.spec.catalogue import device_names, load_device
from calc.spec.run import common_length
from calc.time import predict
from calc.units import binary, duration, si
from dashboard import frame, knobs, layout, picker
from dashboard.cache import cached
from dashboard.shared import share

DEVICE = "h100-sxm"
LEAD = "What a transformer costs, how long it takes, whom it serves, and how wrong such answers were."
NODE = (1, 2, 4, 8)
"""GPUs of one machine that a model is spread over, the fewest that hold it."""
FORMATS = ("bf16", "fp8", "int4")
COMPARED = ("rtx-4090", "l4", "l40s", "a100-sxm-80gb", "h100-sxm", "h200", "b200", "mi300x")
"""GPUs that are asked whether they hold the model."""
USERS, INPUT, OUTPUT = 16, 1024, 256
"""What the server on the card is asked: so many at once, with such prompts and answers, or what the model takes."""
REQUESTS = 8 * USERS


@dataclass(frozen=True)
class Answered:
    """A figure with what stands below it, and the words of the command that prints it; a refusal has no words."""

    value: str
    note: str
    words: tuple[str, ...] = ()


def render(picked: picker.Picked | None) -> None:
    """Draw the page."""
    frame.header("What does it cost?", LEAD)
    chosen = picker.wanted(picked)
    # The answer stands above what it is asked of, which is drawn first.
    answer, controls = st.container(), st.container()
    with controls:
        gpu, price = _knobs()
    spec = chosen.spec
    found = {name: _answered(name, spec, gpu, price) for name in ANSWERS}
    with frame.refusals("This model cannot be counted"), answer:
        st.info(overview(spec))
        card, fitting = layout.side_by_side()
        with card, layout.cards(wide=True):
            for name, (_, page, label) in ANSWERS.items():
                with st.container(gap="xsmall"):
                    frame.metric(name, found[name].value, note=found[name].note)
                    frame.link(page, label)
        with fitting:
            frame.table(held(spec), "fits")
            st.caption("GPUs that hold it to serve one sequence, by the format of its weights; – where eight do not.")
    words = [["report", chosen.reference], *([*each.words] for each in found.values() if each.words)]
    frame.command(*(shlex.join(["python", "-m", "calc", *_named(each, chosen)]) for each in words))


def _knobs() -> tuple[str, float]:
    """Draw the knobs: (device, price of a GPU-hour)."""
    devices = [*device_names()]
    left, right = st.columns([2, 1])
    with left:
        share("gpu", devices, DEVICE)
        gpu = st.selectbox("On which GPU", devices, index=devices.index(DEVICE), key="gpu", bind="query-params")
    with right:
        price = knobs.price()
    return str(gpu), price


def _named(words: Any, chosen: picker.Picked) -> list[str]:
    """The words of a command with the model as the command line knows it."""
    return [words[0], chosen.reference, *words[2:]]


def _answered(name: str, spec: ModelSpec, gpu: str, price: float) -> Answered:
    """One answer of the card; where there is none, why."""
    try:
        return ANSWERS[name][0](spec, gpu, price)
    except Refused as refused:
        return Answered("–", str(refused)[:90])
    except ArithmeticError as error:
        return Answered("–", str(error)[:90])


@cached
def overview(spec: ModelSpec) -> str:
    """What kind of model it is and what a token of it costs, in a sentence; no text of a user is in it."""
    return report(spec).verdict


@cached
def served_on(spec: ModelSpec, gpu: str, dtype: str = "bf16") -> int | None:
    """The fewest GPUs of one machine that serve one sequence of the usual length; None where eight do not."""
    capacity = load_device(gpu).usable
    for tp in NODE:
        try:
            words: dict[str, Any] = {"mode": "inference", "tp": tp, "dtype": dtype, "seq": common_length([spec])}
            peak = estimate(spec, "memory.peak", **words).value
        except Refused:
            continue
        if peak <= capacity:
            return tp
    return None


@cached
def held(spec: ModelSpec) -> list[dict[str, str]]:
    """A row a GPU: how many of it hold the model in each format."""
    rows = []
    for gpu in COMPARED:
        counts = {dtype: served_on(spec, gpu, dtype) for dtype in FORMATS}
        rows.append({"GPU": gpu, **{dtype: "–" if n is None else f"{n}" for dtype, n in counts.items()}})
    return rows


def _size(spec: ModelSpec, gpu: str, price: float) -> Answered:
    total, active = (int(estimate(spec, name).value) for name in ("params", "params.active"))
    weights = binary(int(estimate(spec, "weights").value))
    of_them = "" if active == total else f", {si(active, '')} a token"
    return Answered(f"{si(total, '')}", f"{weights} in bf16{of_them}", ("params", ""))


def _fit(spec: ModelSpec, gpu: str, price: float) -> Answered:
    count = served_on(spec, gpu)
    if count is None:
        return Answered("no", f"eight {gpu} do not hold it in bf16", ("memory", "", "--mode", "inference", "--tp", "8"))
    words = ("memory", "", "--mode", "inference", "--tp", str(count), "--gpu", gpu)
    return Answered(f"{count} GPU{'s' if count > 1 else ''}", f"of {gpu}, served in bf16", words)


@cached
def _token(spec: ModelSpec, gpu: str, price: float) -> Answered:
    tp = served_on(spec, gpu)
    if tp is None:
        return Answered("–", f"more than eight {gpu}")
    question: dict[str, Any] = {"phase": "decode", "context": 2048, "execution": "graph", "tp": tp}
    found = predict(spec, gpu, **question)
    words = ["predict", "", "--gpu", gpu, "--phase", "decode", "--context", "2048", "--execution", "graph"]
    words += ["--tp", str(tp)] if tp > 1 else []
    low, high = duration(found.interval.low), duration(found.interval.high)
    return Answered(duration(found.seconds), f"{low} to {high}; {tp} × {gpu}", tuple(words))


@cached
def _step(spec: ModelSpec, gpu: str, price: float) -> Answered:
    """The fewest GPUs of a machine that train it with ZeRO-3 and full checkpointing, and how fast."""
    seq = common_length([spec])
    for dp in NODE:
        plan: dict[str, Any] = {"dp": dp, "zero": 3 if dp > 1 else 0, "checkpointing": "full"}
        if estimate(spec, "memory.peak", seq=seq, **plan).value > load_device(gpu).usable:
            continue
        found = predict(spec, gpu, phase="training", seq=seq, **plan)
        words = ["predict", "", "--gpu", gpu, "--phase", "training", "--seq", str(seq), "--checkpointing", "full"]
        words += ["--dp", str(dp), "--zero", "3"] if dp > 1 else []
        rate = found.tokens_per_second
        cost = dp * price / 3600 / rate * 1e9
        return Answered(f"{si(rate, 'tok/s')}", f"{dp} × {gpu}; ${cost:,.0f} a billion tokens", tuple(words))
    return Answered("> 8 GPUs", "one machine does not train it")


@cached
def _serve(spec: ModelSpec, gpu: str, price: float) -> Answered:
    """A closed loop of users on the fewest GPUs that hold the model; one token each of what generates none."""
    tp = served_on(spec, gpu)
    if tp is None:
        return Answered("–", f"more than eight {gpu}")
    output = OUTPUT if spec.decodes else 1
    prompt = max(min(INPUT, (spec.max_seq_len or INPUT + output) - output), 1)
    service = service_of(spec, gpu, layout_of(spec, gpus=tp, tp=tp))
    found = answer(service, closed_loop(USERS, prompt, output, REQUESTS, service.engine.scatter, 0))
    if found.report is None:
        return Answered("–", f"{USERS} at once do not fit on {tp} × {gpu}")
    rate = found.report.output
    cost = tp * price / 3600 / (rate if spec.decodes else found.report.total) * 1e6
    words = ("serve", "", "--gpu", gpu, "--tp", str(tp), "--input", str(prompt), "--output", str(output))
    words += ("--concurrency", str(USERS), "--requests", str(REQUESTS))
    shown = rate if spec.decodes else found.report.total
    return Answered(si(shown, "tok/s"), f"{USERS} users; ${cost:,.2f} a million", words)


ANSWERS = {
    "Parameters": (_size, "model", "What it is made of"),
    "Fits on": (_fit, "memory", "What it holds"),
    "A token, alone": (_token, "roofline", "Where its time goes"),
    "Training": (_step, "plan", "On more GPUs"),
    "Serving": (_serve, "serve", "Faster or cheaper"),
}
"""Figure -> what answers it, and the page that says more."""
