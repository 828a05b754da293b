"""What a case says of itself without torch: its id, its parameters, what it counts, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import calc
from calc.errors import Refused
from calc.time.device.profile import shipped_profile
from harness.cases import KINDS, lists, make
from harness.cases.models import own_names, spec_of
from harness.ranks.start import Place
from harness.ranks.suites import RANK_SUITES
from harness.record import Environment
from tests.reference import ROOT


def machine(device: Any) -> Environment:
    sizes: dict[str, Any] = {"cores": 2, "threads": 2, "memory": 80 * 2**30}
    return Environment(slug="x", device=device, name="x", cpu="x", os="x", python="3", torch="2", **sizes)


DEVICES: tuple[Any, ...] = ("cpu", "cuda")
EVERYTHING = [case for device in DEVICES for case in lists.full(machine(device))]
EVERYTHING += [
    case for device in DEVICES for suite in RANK_SUITES.values() for case in suite(Place(0, 2, 0, 2), device)
]


def test_ids_tell_cases_apart_and_parameters_make_them_again() -> None:
    assert {case.kind for case in EVERYTHING} == set(KINDS)
    by_id = {case.id: case for case in EVERYTHING}
    assert len(by_id) == len(set(EVERYTHING))
    for case in by_id.values():
        again = make(case.kind, json.loads(json.dumps(case.params)))
        assert (again, again.id, type(again)) == (case, case.id, type(case))
        assert "\n" not in case.id
    assert make("matmul", {"m": 2, "n": 3, "k": 5}).id == "matmul/m=2,n=3,k=5,batch=1,dtype=bf16,layout=nt,cache=hot"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_case_of_every_suite_is_counted(device: Any) -> None:
    for case in lists.full(machine(device)):
        counts = case.counts()
        assert counts, case.id
        assert all(value > 0 for value in counts.values()), case.id
        assert case.memory() > 0, case.id


@pytest.mark.parametrize(
    ("kind", "params", "fault"),
    [
        ("nonsense", {}, "kind: expected one of"),
        ("matmul", {"n": 1, "k": 1}, "m: expected a value, found nothing"),
        ("matmul", {"m": True, "n": 1, "k": 1}, "found true"),
        ("matmul", {"m": 1.0, "n": 1, "k": 1}, "found 1.0"),
        ("matmul", {"m": 0, "n": 1, "k": 1}, "greater than 0"),
        ("matmul", {"m": 10**30, "n": 1, "k": 1}, "less than or equal"),
        ("matmul", {"m": float("nan"), "n": 1, "k": 1}, "JSON can hold"),
        ("matmul", {"m": object(), "n": 1, "k": 1}, "JSON can hold"),
        ("matmul", {"m": 1, "n": 1, "k": 1, "dtype": "<b>\n"}, "dtype"),
        ("matmul", {"m": 1, "n": 1, "k": 1, "colour\n": 3}, "colour"),
        ("forward", {"model": "../../etc/passwd", "seq": 3}, "model: expected a preset"),
        ("forward", {"model": "gpt2", "seq": 3000}, "seq: expected at most the 1024 positions"),
        ("forward", {"model": "tiny-vit", "seq": 2}, "seq: expected 1"),
        ("decode", {"model": "tiny-bert", "context": 3}, "goes on token by token"),
        ("training", {"model": "bert-base", "seq": 3}, "model: expected a model that reads pictures, or has a head"),
        ("decode", {"model": "tiny-moe", "context": 3, "execution": "graph"}, "execution: expected another"),
        ("attention", {"backend": "nope", "seq": 3, "heads": 4, "d_head": 5}, "backend: expected one of reference"),
        ("attention", {"backend": "tiled", "seq": 3, "heads": 4, "d_head": 5, "kv_heads": 3}, "kv_heads"),
        ("pass", {"function": "add", "elements": 5000, "direction": "backward"}, "direction: expected forward"),
        ("collective", {"op": "all_reduce", "nbytes": 9}, "nbytes: expected a multiple"),
        ("collective", {"op": "all_reduce", "nbytes": 2**20, "ranks": 2**20}, "ranks: expected"),
        ("parallel_training", {"model": "tiny-vit", "seq": 9}, "model: expected"),
        ("parallel_training", {"model": "tiny-gpt", "seq": 1025}, "seq: expected at most the 1024 positions"),
        ("parallel_training", {"model": "tiny-gpt", "seq": 1}, "seq: expected at least 2"),
    ],
)
def test_what_no_case_can_have_is_refused_in_one_line(kind: str, params: dict[str, Any], fault: str) -> None:
    with pytest.raises(Refused) as found:
        make(kind, params)
    assert fault in str(found.value)
    assert "\n" not in str(found.value)


def test_counts_are_those_of_calc() -> None:
    spec, sizes = spec_of("tiny-gqa"), {"batch": 2, "seq": 40}
    forward = make("forward", {"model": "tiny-gqa", **sizes, "dtype": "fp32"}).counts()
    training = make("training", {"model": "tiny-gqa", **sizes, "checkpointing": "full"}).counts()
    decode = make("decode", {"model": "tiny-gqa", "batch": 2, "context": 40, "dtype": "fp32"}).counts()
    assert forward["flops"] == calc.estimate(spec, "flops.forward", **sizes).value
    assert forward["tokens"] == training["tokens"] == 80
    assert training["flops"] == calc.estimate(spec, "flops.training", checkpointing="full", **sizes).value
    assert training["model_flops"] == calc.estimate(spec, "flops.training", convention="palm", **sizes).value
    assert decode["flops"] == calc.estimate(spec, "flops.decode", batch=2, context=40).value
    # Of the table of tokens, which is no head here, two rows are read, and of the cache 40 tokens for each sequence.
    table = spec.vocab_size * spec.d_model if spec.vocab_size else 0
    cached = calc.estimate(spec, "kv_cache", batch=2, seq=40, dtype="fp32").value
    weights = calc.estimate(spec, "params").value
    assert decode["bytes"] == 4 * (weights - table + 2 * spec.d_model) + cached


@pytest.mark.parametrize(("model", "known"), [("tiny-gqa", True), ("tiny-moe", False), ("tiny-mla", False)])
def test_only_what_palms_formula_describes_has_model_flops(model: str, known: bool) -> None:
    assert ("model_flops" in make("training", {"model": model, "seq": 40}).counts()) == known


def test_a_profile_says_nothing_of_tf32() -> None:
    profile = shipped_profile("h100-sxm")
    assert profile is not None
    sizes = {"m": 4096, "n": 4096, "k": 4096}
    assert make("matmul", {**sizes, "dtype": "tf32"}).forecast(profile) is None
    assert make("matmul", {**sizes, "dtype": "bf16"}).forecast(profile) is not None


def test_prefill_is_forward_with_the_logits_of_one_token() -> None:
    case = make("prefill", {"model": "tiny-gpt", "seq": 40, "batch": 2})
    spec = spec_of("tiny-gpt")
    head = 2 * 128 * 2003
    assert case.counts()["flops"] == calc.estimate(spec, "flops.forward", batch=2, seq=40).value - 78 * head


def test_a_layer_is_what_two_layers_have_more_than_one() -> None:
    case = make("layer", {"model": "tiny-gpt", "seq": 40, "batch": 2})
    back = make("layer", {"model": "tiny-gpt", "seq": 40, "batch": 2, "direction": "backward"})
    spec = spec_of("tiny-gpt")

    def flops(layers: int) -> int:
        group = spec.layers[0].model_copy(update={"count": layers})
        changed = spec.model_copy(update={"layers": (group,)})
        return int(calc.estimate(changed, "flops.forward", batch=2, seq=40).value)

    assert case.counts()["flops"] == flops(2) - flops(1)
    assert back.counts()["flops"] == 2 * case.counts()["flops"]


def test_models_have_the_sizes_that_their_names_promise() -> None:
    sizes = {name: int(calc.estimate(spec_of(name), "params").value) for name in own_names()}
    assert 1.5e9 < sizes["gpt-1.5b"] < 1.6e9
    assert 1e9 < sizes["llama-mqa-1b"] < 1.5e9
    assert 1.5e9 < sizes["mla-2b"] < 2.5e9
    assert 2.5e9 < sizes["moe-3b"] < 3.5e9
    assert 86e6 < sizes["vit-base"] < 87e6
    assert all(size < 3.5e6 for name, size in sizes.items() if name.startswith("tiny-"))


def test_describing_cases_loads_no_torch() -> None:
    code = "import sys, harness.cases.lists; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
