"""Searching how to serve: what is best is really best of all, fits, and starts with words that engines know."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from calc.architectures.models import load_model
from calc.cli import main
from calc.cli.plan_serving import slo as read_slo
from calc.errors import Refused
from calc.plan.serving import search_serving, services_of
from calc.plan.serving_plan import LOADS, Slo, Wish
from calc.serve.answer import answer
from calc.serve.layout import layout_of
from calc.serve.service import Service, service_of
from calc.serve.workload import closed_count, closed_loop
from calc.units import binary
from tests.reference import folder

WISH = Wish(
    load_model("llama-3-8b"),
    ("h100-sxm", "l4"),
    (1, 4),
    1024,
    256,
    Slo(ttft=1.0, tpot=0.02),
    dtypes=("bf16", "fp8"),
    prices={"h100-sxm": 2.0, "l4": 0.5},
)


def test_the_front_and_the_best() -> None:
    found = search_serving(WISH)
    speeds = [(plan.per_gpu, plan.per_user) for plan in found.front]
    assert speeds == sorted(speeds, reverse=True, key=lambda each: each[0])
    assert [user for _, user in speeds] == sorted(user for _, user in speeds)
    best = found.best
    assert best is not None
    assert best.ttft <= 1.0
    assert best.tpot <= 0.02
    assert best.cost == pytest.approx(best.price * best.gpus / 3600 / (best.requests * 256) * 1e6)  # pyright: ignore[reportOptionalOperand]


def test_the_best_is_what_serve_says() -> None:
    """The plan's closed form beside the simulation of the same service at that load."""
    best = search_serving(WISH).best
    assert best is not None
    load = round(best.concurrency)
    report = answer(best.services[0], closed_loop(load, 1024, 256, 20 * load, 0.5)).report
    assert report is not None
    assert report.tpot.mean == pytest.approx(best.tpot, rel=0.08)


def test_no_layout_beats_the_best_at_any_load() -> None:
    """Each layout that holds the model, with ever more users while they meet the SLO, simulated as `serve` does."""
    wish = replace(WISH, devices=("h100-sxm", "h200"), output=64, prices={"h100-sxm": 2.0, "h200": 3.0})
    best, worth = search_serving(wish).best, []
    assert best is not None
    for service in services_of(wish):
        room = service.running(wish.input, wish.output)
        for load in (int(each) for each in LOADS if each <= room):
            work = closed_loop(load, wish.input, wish.output, closed_count(load), service.engine.scatter)
            report = answer(service, work).report
            assert report is not None
            if not wish.slo.meets(report.ttft.mean, report.tpot.mean):
                break
            hourly = (wish.prices or {})[service.device.name] * service.layout.gpus
            worth.append(report.requests_per_second * wish.output / hourly)
    assert best.worth * 1.02 >= max(worth) * 3600 / 1e6


def test_a_layout_that_promises_less_and_keeps_it_is_not_passed_over() -> None:
    """What the closed form says most of need not be what a simulation does."""
    spec = load_model("llama-3.1-405b")
    wish = Wish(spec, ("h100-sxm",), (16, 16), 1000, 500, Slo(ttft=0.7, tpot=0.06))
    best = search_serving(wish).best
    assert best is not None
    met = 0
    for layout in (layout_of(spec, tp=16), layout_of(spec, tp=8, pp=2)):
        service = service_of(spec, "h100-sxm", layout, "vllm", "bf16")
        for users in (8, 16, 32):
            report = answer(service, closed_loop(users, 1000, 500, closed_count(users), service.engine.scatter)).report
            assert report is not None
            if wish.slo.meets(report.ttft.mean, report.tpot.mean):
                met += 1
                assert best.per_gpu > 0.97 * report.requests_per_second * 500 / 16
    assert met > 2


def test_a_pipeline_is_not_named_where_servers_of_one_machine_do_as_well() -> None:
    wish = replace(WISH, spec=load_model("llama-3.1-70b"), devices=("h100-sxm",), gpus=(8, 32), dtypes=("bf16",))
    found = search_serving(replace(wish, slo=Slo(ttft=1.0, tpot=0.03)))
    plans = [*found.front, found.best]
    assert plans
    assert all(plan is not None and plan.services[0].layout.pp == 1 for plan in plans)
    larger = search_serving(replace(wish, spec=load_model("llama-3.1-405b"), slo=Slo()))
    assert any(plan.services[0].layout.pp == 2 for plan in larger.front)


def test_what_does_not_fit_is_not_planned() -> None:
    found = search_serving(replace(WISH, spec=load_model("llama-3-70b"), devices=("l4",), gpus=(1, 1)))
    assert found.fitting == 0
    assert found.front == ()
    assert found.best is found.nearest is None


@pytest.mark.parametrize(
    ("model", "gpus", "sizes"),
    [
        ("llama-3-8b", (3, 8), {4, 8}),
        ("llama-3-8b", (1, 6), {1, 2, 4}),
        ("qwen3-30b-a3b", (6, 6), {6}),
        ("qwen3-30b-a3b", (3, 6), {3, 4, 6}),
    ],
)
def test_servers_have_as_many_gpus_as_were_asked(model: str, gpus: tuple[int, int], sizes: set[int]) -> None:
    """Powers of two and both ends, where the model divides by them; never fewer than asked."""
    wish = replace(WISH, spec=load_model(model), devices=("h200",), prices=None, dtypes=("bf16",), gpus=gpus, slo=Slo())
    assert {plan.gpus for plan in search_serving(wish).front} <= sizes
    for size in sizes:
        assert {plan.gpus for plan in search_serving(replace(wish, gpus=(size, size))).front} == {size}


def test_a_number_of_gpus_that_no_layout_has_is_refused() -> None:
    with pytest.raises(Refused, match=r"--gpus: .*5\.\.5"):
        search_serving(replace(WISH, gpus=(5, 5)))


def test_prompts_apart_make_steadier_answers() -> None:
    wish = replace(WISH, devices=("h100-sxm",), gpus=(1, 8), input=16384, output=256, slo=Slo())
    together, apart = search_serving(wish), search_serving(replace(wish, apart=True))
    assert apart.tried > together.tried
    assert any(len(plan.services) == 2 for plan in apart.front)
    assert all(plan.gpus <= 8 for plan in apart.front)


def test_a_device_without_a_price_is_refused() -> None:
    with pytest.raises(Refused, match="--price"):
        search_serving(replace(WISH, prices={"l4": 1.0}))


def test_replicas() -> None:
    best = search_serving(WISH).best
    assert best is not None
    assert best.replicas_for(best.requests * 0.79, 0.2) == 1
    assert best.replicas_for(best.requests * 0.81, 0.2) == 2


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*arguments: str, model: str = "llama-3-8b") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["envelope", "plan", model, "--serve", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


ASKED = ("--on", "h100-sxm", "--gpus", "1..2", "--input", "1024", "--output", "256")


@pytest.mark.parametrize("slo", [(), ("--slo", "ttft=200ms")])
def test_no_token_follows_the_only_one(run: Run, slo: tuple[str, ...]) -> None:
    """The front is of first tokens then, and no column shows others."""
    words = (*ASKED, "--output", "1", *slo)
    found = json.loads(run(*words, "--json")[1])
    assert {each[name] for each in (*found["front"], found["best"]) for name in ("tpot", "tokens_per_user")} == {None}
    waits = [each["ttft"] for each in found["front"]]
    assert waits == sorted(waits, reverse=True)
    assert len(waits) > 1
    rows = [line.split() for line in run(*words)[1].splitlines() if line.startswith("h100-sxm")]
    assert {row[-1] for row in rows} == {"–"}


def test_the_command(run: Run) -> None:
    code, out, _ = run(*ASKED, "--slo", "tpot=20ms", "--price", "2/h", "--rate", "50", "--as", "vllm", "--json")
    record = json.loads(out)
    assert code == 0
    assert record["best"]["tpot"] <= 0.02
    assert record["replicas"] >= 1
    assert record["launch"][0].startswith("vllm serve ")
    words, count = (*ASKED, "--slo", "tpot=20ms", "--price", "2/h", "--rate", "50"), record["replicas"]
    gpus = count * record["best"]["gpus"]
    assert f"for the rate, with headroom, {count} of it: {gpus} GPUs, {2 * gpus} an hour" in run(*words)[1]
    assert f"this starts one server; for the rate, with headroom, {count} of it" in run(*words, "--as", "vllm")[2]


@pytest.mark.parametrize(("tool", "count"), [("dynamo", "python -m dynamo.vllm"), ("llm-d", "  replicas: {}\n")])
def test_what_starts_several_servers_starts_as_many_as_the_rate_takes(run: Run, tool: str, count: str) -> None:
    words = (*ASKED, "--slo", "tpot=20ms", "--rate", "50")
    replicas = json.loads(run(*words, "--json")[1])["replicas"]
    assert replicas > 1
    _, out, err = run(*words, "--as", tool)
    assert out.count(count.format(replicas)) == (replicas if tool == "dynamo" else 1)
    assert "starts one server" not in err


@pytest.mark.parametrize("slo", ["ttft=200ms", "tpot=12ms", "ttft=400ms,tpot=20ms"])
def test_the_best_is_what_serve_says_of_it(run: Run, slo: str) -> None:
    """Prompts that come together wait for one another, of which the closed form knows nothing."""
    best = json.loads(run(*ASKED, "--slo", slo, "--json")[1])["best"]
    service = service_of(WISH.spec, "h100-sxm", layout_of(WISH.spec, tp=best["gpus"]), "vllm", "bf16")
    users = int(best["concurrency"])
    report = answer(service, closed_loop(users, 1024, 256, closed_count(users), service.engine.scatter)).report
    assert report is not None
    assert (best["ttft"], best["tpot"]) == pytest.approx((report.ttft.mean, report.tpot.mean))
    assert read_slo(slo).meets(best["ttft"], best["tpot"])


@pytest.mark.parametrize(
    "words",
    [
        ("--slo", "ttft=400ms,tpot=20ms", "--batched-tokens", "1024", "--engine", "sglang"),
        ("--slo", "tpot=0.01ms", "--dtype", "fp8"),
        ("--slo", "tpot=9ms", "--guess", "2", "--acceptance", "0.8"),
    ],
)
def test_the_command_beside_it_says_the_same(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Of the best, and of the nearest where none meets the SLO."""
    record = json.loads(run(*ASKED, *words, "--json")[1])
    found = record["best"] or record["nearest"]
    monkeypatch.setattr(sys, "argv", [*shlex.split(record["command"])[2:], "--json"])
    with pytest.raises(SystemExit):
        main()
    out = json.loads(capsys.readouterr().out)
    assert (out["ttft"]["mean"], out["tpot"]["mean"]) == pytest.approx((found["ttft"], found["tpot"]))
    assert record["command"] in " ".join(run(*ASKED, *words)[1].replace("\\\n", " ").split())


def test_several_machines_may_have_a_stage_each() -> None:
    """Llama 3.1 405B in bf16 on 16 H100, where tensor parallelism over both machines passes more through adapters."""
    wish = replace(WISH, spec=load_model("llama-3.1-405b"), devices=("h100-sxm",), dtypes=("bf16",), prices=None)
    found = search_serving(replace(wish, gpus=(16, 16), slo=Slo()))
    layouts = {plan.services[0].layout for plan in found.front}
    assert {(layout.tp, layout.pp) for layout in layouts} == {(16, 1), (8, 2)}
    assert found.best is not None
    assert found.best.services[0].layout.pp == 2
    alone = search_serving(replace(wish, spec=load_model("llama-3-8b"), gpus=(8, 8), slo=Slo()))
    assert {plan.services[0].layout.pp for plan in alone.front} == {1}


def test_what_starts_it_stands_alone_and_in_its_format(run: Run) -> None:
    code, out, err = run(*ASKED, "--dtype", "fp8", "--as", "vllm")
    assert code == 0
    (line,) = out.splitlines()
    assert line.startswith("vllm serve llama-3-8b ")
    assert " --quantization fp8 " in line
    assert " --max-model-len 1408 " in line  # lengths scatter by a tenth
    assert "put the checkpoint's path or Hub id in its place" in err
    assert "name a checkpoint in that format" in run(*ASKED, "--dtype", "int4:g128", "--as", "vllm")[2]
    assert "name a checkpoint" not in err


def test_engines_that_do_not_run_on_a_device_are_left_out_and_named(run: Run) -> None:
    words = ("--on", "mi300x,h100-sxm", "--gpus", "1", "--input", "1024", "--output", "256", "--engine", "trtllm,vllm")
    code, out, _ = run(*words, "--json")
    record = json.loads(out)
    assert code == 0
    assert [(each["device"], each["engine"]) for each in record["left_out"]] == [("mi300x", "trtllm")]
    found = {(plan["device"], plan["engine"]) for plan in record["front"]}
    assert ("mi300x", "trtllm") not in found
    assert "left out, since these do not start: trtllm on mi300x in bf16\n" in run(*words)[1]
    alone = ("--on", "mi300x", "--gpus", "1", "--input", "1024", "--output", "256")
    code, out, err = run(*alone, "--engine", "trtllm")
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: --engine: expected one that runs on mi300x: .*vllm, found trtllm\n", err)
    code, out, err = run(*alone, "--engine", "vllm", "--as", "trtllm")
    assert (code, out) == (2, "")
    assert (
        "error: --as: expected what starts vllm, as planned: TensorRT-LLM does not run on mi300x, found trtllm" in err
    )


def test_a_config_is_no_checkpoint_that_a_line_could_start(run: Run) -> None:
    file = folder() / "truth" / "configs" / "gpt-oss-20b.json"
    _, out, err = run(*ASKED, "--dtype", "mxfp4", "--as", "vllm", model=str(file))
    assert out.startswith(f"vllm serve {file} ")
    assert f"note: {file} is a config alone: put the folder or Hub id of its checkpoint in its place\n" in err
    assert "its checkpoint is in" not in err
    assert "its checkpoint is in mxfp4" in run(*ASKED, model=str(file))[2]


def test_no_plan_meets_it(run: Run) -> None:
    code, out, _ = run(*ASKED, "--slo", "tpot=0.01ms", "--json")
    assert code == 1
    record = json.loads(out)
    assert record["best"] is None
    least = min(record["front"], key=lambda plan: plan["tpot"])
    assert record["nearest"]["layout"] == least["layout"]
    assert record["nearest"]["tpot"] == pytest.approx(least["tpot"], rel=0.05)
    assert "none meets the SLO; the nearest" in run(*ASKED, "--slo", "tpot=0.01ms")[1]
    assert run(*ASKED, "--slo", "tpot=0.01ms", "--as", "vllm")[:2] == (1, "")


@pytest.mark.parametrize(
    ("device", "asked", "engine", "dtype", "input"),
    [
        ("rtx-3070", 1, "vllm", "bf16", 1024),
        ("rtx-4090", 2, "vllm", "bf16", 1024),
        ("rtx-4090", 1, "llama.cpp", "q8_0", 1024),
        ("l4", 1, "vllm", "fp8", 131_072),
        ("h100-sxm", 1, "vllm", "fp8", 524_288),
    ],
)
def test_where_nothing_fits_one_line_says_the_least_that_does(
    run: Run, device: str, asked: int, engine: str, dtype: str, input: int
) -> None:
    spec = load_model("llama-3-70b")

    def service(gpus: int, form: str) -> Service:
        return service_of(spec, device, layout_of(spec, tp=gpus), engine, form)

    words = ("--on", device, "--gpus", f"1..{asked}", "--engine", engine, "--dtype", dtype, "--input", str(input))
    code, out, err = run(*words, "--output", "256", model=spec.name)
    assert (code, out) == (1, "")
    line = err.splitlines()[-1]
    held = binary(int(service(asked, dtype).rank.held))
    assert line.startswith(f"error: nothing fits: the weights of llama-3-70b in {dtype} take {held} on ")
    told = re.search(r"; --gpus (\d+)", line)
    assert told is not None
    enough = int(told[1])
    assert service(enough, dtype).running(input, 256) >= 1
    assert service(enough // 2, dtype).running(input, 256) == 0
    if form := re.search(r" or --dtype (\S+) would", line):
        assert service(asked, form[1]).running(input, 256) >= 1
    # What nothing holds is told before what starts it, but vLLM does not start what llama.cpp loads.
    status = 2 if engine == "llama.cpp" else 1
    assert run(*words, "--output", "256", "--as", "vllm", model=spec.name)[:2] == (status, "")
    assert json.loads(run(*words, "--output", "256", "--json", model=spec.name)[1])["best"] is None


def test_where_nothing_that_is_tried_is_enough_it_is_said(run: Run) -> None:
    code, _, err = run("--on", "rtx-3070", "--gpus", "1", "--input", "512", "--output", "8", model="deepseek-v3")
    assert code == 1
    assert "neither more GPUs nor a format of fewer bits is enough" in err


def test_the_nearest_is_what_serve_says_of_it() -> None:
    """Both limits count, the one that is missed by more first."""
    wish = replace(WISH, devices=("h100-sxm",), slo=Slo(ttft=1e-3, tpot=1e-3))
    nearest = search_serving(wish).nearest
    assert nearest is not None
    service = nearest.services[0]
    report = answer(service, closed_loop(1, 1024, 256, closed_count(1), service.engine.scatter)).report
    assert report is not None
    assert nearest.concurrency == 1
    assert nearest.ttft == pytest.approx(report.ttft.mean)
    assert not wish.slo.meets(nearest.ttft, nearest.tpot)
    assert wish.slo.times(nearest.ttft, nearest.tpot) == pytest.approx(nearest.ttft / 1e-3)
    # By the time of a token alone no plan has a shorter one than the nearest.
    other = search_serving(replace(wish, slo=Slo(tpot=1e-3))).nearest
    assert other is not None
    assert other.tpot <= nearest.tpot
    assert Slo(ttft=1.0, tpot=0.01).times(0.5, 0.02) == pytest.approx(2)


def test_the_best_is_the_most_users_that_meet_when_simulated() -> None:
    """Answers of 64 tokens that start together: in closed form a token takes up to twice as long."""
    wish = replace(WISH, devices=("h200",), gpus=(2, 2), input=256, output=64, dtypes=("bf16",), prices=None)
    service = service_of(wish.spec, "h200", layout_of(wish.spec, tp=2), "vllm", "bf16")
    found = {}
    for users in sorted({int(load) for load in LOADS if load < 50}):
        report = answer(service, closed_loop(users, 256, 64, closed_count(users), service.engine.scatter)).report
        assert report is not None
        found[users] = report.tpot.mean
    for limit in (0.00379, 0.0043):
        best = search_serving(replace(wish, slo=Slo(tpot=limit))).best
        assert best is not None
        least = max(users for users, tpot in found.items() if tpot <= limit)
        assert least <= best.concurrency < min(users for users in found if users > least)
        assert best.tpot <= limit


def test_users_are_as_many_as_still_meet_it() -> None:
    """To a sixteenth: between the loads that are looked at, which are half as many again, too."""
    wish = replace(WISH, devices=("h100-sxm",), gpus=(1, 1), dtypes=("bf16",), prices=None, slo=Slo(tpot=0.022))
    best = search_serving(wish).best
    assert best is not None
    assert best.concurrency not in {int(load) for load in LOADS}
    service = best.services[0]
    for users, meets in ((best.concurrency, True), (best.concurrency + best.concurrency // 8, False)):
        work = closed_loop(int(users), 1024, 256, closed_count(int(users)), service.engine.scatter)
        report = answer(service, work).report
        assert report is not None
        assert (report.tpot.mean <= 0.022) == meets


@pytest.mark.parametrize(
    "words",
    [
        ("--slo", "tpot=20"),
        ("--slo", "ttft=1us"),
        ("--gpus", "8..1"),
        ("--slo", "tpot=0ms"),
        ("--slo", "tpot=5ms,tpot=9ms"),
        ("--slo", "tpot=5ms", "--output", "1"),
        ("--rate", "-5"),
        ("--gpus", "4..1"),
        ("--price", "h100-sxm=cheap"),
        ("--price", "h100-sxm=0/h"),
        ("--batched-tokens", "0"),
        ("--batched-tokens", "8192,0"),
        ("--headroom", "0.1"),
        ("--on", "nonsense"),
    ],
)
def test_bad_words(run: Run, words: tuple[str, ...]) -> None:
    code, out, err = run(*ASKED, *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")


def test_a_column_of_prices_stands_where_there_are_some(run: Run) -> None:
    words = ("--on", "h100-sxm", "--gpus", "1", "--input", "512", "--output", "64")
    _, plain, _ = run(*words)
    assert "price/M" not in plain
    assert "tok/s/user" in plain
    assert "most tokens a GPU\n" in plain
    _, priced, _ = run(*words, "--price", "2/h")
    assert priced.count("price/M") == 3
    assert "tok/s/user, which is 1 / tpot" in plain
    assert "price/M: of a million tokens of answers with their prompts, as serve --price has it" in priced
    assert "the cheapest\n" in priced
    _, asked, _ = run(*words, "--slo", "tpot=50ms")
    assert "most tokens a GPU that meets the SLO, every request simulated\n" in asked


@pytest.mark.parametrize("price", [(), ("--price", "2/h")])
def test_of_plans_that_are_worth_as_much_the_fastest_is_named(run: Run, price: tuple[str, ...]) -> None:
    """Hundreds of users at once see a token in seconds here, for a hundredth more a GPU than fewer of them."""
    words = ("--on", "l40s", "--gpus", "8", "--dtype", "fp8", "--input", "1024", "--output", "256", *price)
    _, out, err = run(*words, "--json", model="llama-3-70b")
    found = json.loads(out)
    best, most = found["best"], max(each["tokens_per_gpu"] for each in found["front"])
    assert best["tokens_per_gpu"] >= most / 1.03
    faster = [each for each in found["front"] if each["tpot"] < best["tpot"]]
    assert all(each["tokens_per_gpu"] < most / 1.03 for each in faster)
    assert best["tpot"] < found["front"][0]["tpot"] / 2
    assert "no --slo was given" in err
    assert "no --slo was given" not in run(*words, "--slo", "tpot=100ms", model="llama-3-70b")[2]


@pytest.mark.parametrize("tool", ["vllm", "sglang", "trtllm"])
def test_what_starts_no_prompts_apart_is_refused_before_any_search(
    run: Run, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("calc.cli.plan_serving.search_serving")
    code, out, err = run(*ASKED, "--apart", "--as", tool)
    said = f"--as: expected dynamo or llm-d where prompts and answers have GPUs of their own, found {tool}"
    assert (code, out, err) == (2, "", f"error: {said}\n")


def test_layouts_that_a_tool_does_not_start_are_left_out(run: Run) -> None:
    """Sixteen GPUs are two machines, over which llm-d has no word for a server."""
    words = ("--on", "h100-sxm", "--gpus", "8..16", "--input", "512", "--output", "32", "--json")
    free, bound = (json.loads(run(*words, *more)[1]) for more in ((), ("--as", "llm-d")))
    assert bound["fitting"] < free["fitting"]
    assert {plan["gpus"] for plan in bound["front"]} == {8}
    assert bound["launch"][0] == "modelArtifacts:"
    out = free["fitting"] - bound["fitting"]
    assert (
        f"note: {out} of {free['layouts']} layouts are left out, which llm-d does not start"
        in run(*words, "--as", "llm-d")[2]
    )


def test_where_a_tool_starts_no_layout_it_is_refused_before_any_search(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("calc.plan.serving.steady_of")
    code, out, err = run("--on", "h100-sxm", "--gpus", "16", "--input", "64", "--output", "8", "--as", "llm-d")
    assert (code, out) == (2, "")
    assert err.startswith("error: --as: expected one of vllm, sglang, trtllm, dynamo for a pipeline or tp beyond a ")


def test_what_is_missing_is_looked_up_in_the_help_of_plans_to_serve(run: Run) -> None:
    code, _, err = run("--input", "512", "--output", "64")
    assert code == 2
    assert err.startswith("error: Missing option '--on'. (try ")
    assert err.endswith(" plan --serve --help')\n")
