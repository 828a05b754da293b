"""What autograd keeps of transformers' own models, one small model a family, against what is written down of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import calc  # noqa: E402
from calc.architectures import from_config  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors as what_is_saved  # noqa: E402
from calc.spec.load import Experts, Load  # noqa: E402
from calc.time import predict  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from calc.tracing.building import class_of  # noqa: E402
from reference_models.saved import still_kept  # noqa: E402
from tests.architectures.cases_text import TEXT  # noqa: E402
from tests.architectures.headed import HEADED  # noqa: E402
from tests.reference_models.values import CASES  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "memory.md"
BATCH, SEQ = 2, 64
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1, "decoder_start_token_id": 0}
FAMILIES = CASES | {
    "bert": TEXT["bert"][0] | {"max_position_embeddings": SEQ, "architectures": ["BertForMaskedLM"]},
    "big_bird": TEXT["big_bird"][0] | {"max_position_embeddings": SEQ, "architectures": ["BigBirdForMaskedLM"]},
    "longformer": TEXT["longformer"][0]
    | {"max_position_embeddings": SEQ + 8, "attention_window": 16, "architectures": ["LongformerForMaskedLM"]},
    "t5": TEXT["t5"][0] | {"architectures": ["T5ForConditionalGeneration"]},
}
DAILY = ("llama", "gpt2", "qwen3", "gemma", "bert", "t5", "olmo2", "phi3", "falcon", "mixtral", "mamba", "mamba2")
"""Families measured in every run of the suite; the others where slow tests run."""
MODES = {
    "eager fp32": Settings("eager", "fp32", device="cpu"),
    "eager bf16": Settings("eager", "bf16", device="cpu"),
    "sdpa bf16": Settings("sdpa", "bf16", device="cpu"),
    "sdpa autocast": Settings("sdpa", "bf16", autocast=True, device="cpu"),
}
INDICES = 4 * 8 * BATCH * SEQ
"""Bytes in which indices may differ: positions that are buffers, targets that are the inputs themselves, and a few
constants that transformers makes tensors of; four numbers of 8 bytes for each token at most."""
BREAKS = {("dbrx", "sdpa autocast"): "transformers adds bf16 to fp32"}
"""What transformers cannot run."""


def theirs(name: str, settings: Settings, experts: str = "eager") -> Any:
    """transformers' model without dropout; eager where it has no other attention. experts: how it runs them, `eager` in
    a loop."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **(TOKENS | FAMILIES[name]))
    for key, value in vars(config).copy().items():
        if "drop" in key and isinstance(value, float):
            setattr(config, key, 0.0)
    make = (HEADED.get(name) or class_of(config))._from_config
    try:
        model = make(config, attn_implementation=settings.execution, experts_implementation=experts)
    except ValueError:
        model = make(config, attn_implementation="eager", experts_implementation=experts)
    return model.to(torch.float32 if settings.stream == "fp32" else torch.bfloat16).train()


def measured(name: str, settings: Settings, experts: str = "eager") -> int:
    """Bytes that autograd keeps of a forward pass to the loss."""
    model = theirs(name, settings, experts)
    tokens = torch.randint(3, 90, (BATCH, SEQ))
    more = {} if name in ("bert", "big_bird", "longformer") else {"use_cache": False}

    def forward() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=settings.autocast):
            return model(tokens, labels=tokens, **more)

    return still_kept(model, forward)


def counted(name: str, settings: Settings, experts: Experts = "loop") -> int:
    spec = from_config({"model_type": name, **FAMILIES[name]})
    load = Load(batch=BATCH, seq=SEQ, source=SEQ if name == "t5" else None, experts=experts)
    return int(sum(count * each.tensor.bytes for count, each in what_is_saved(spec, load, settings).everything()))


def difference(name: str, mode: str) -> str:
    """How much more (+) or less (-) is counted than is kept, in percent; `=` to the byte, but for indices."""
    if (name, mode) in BREAKS:
        return "–"
    ours, real = counted(name, MODES[mode]), measured(name, MODES[mode])
    return "=" if abs(ours - real) <= INDICES else f"{100 * (ours - real) / real:+.1f}"


@pytest.mark.parametrize("noise", [None, 0.0, 0.01])
def test_dbrx_keeps_what_it_shakes_tokens_with(noise: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of no width too, which are ones, but no noise at all where there is none to ask for."""
    config = FAMILIES["dbrx"]
    shaken = config | {"ffn_config": config["ffn_config"] | {"moe_jitter_eps": noise}}
    monkeypatch.setitem(FAMILIES, "dbrx", shaken)
    ours, real = counted("dbrx", MODES["eager fp32"]), measured("dbrx", MODES["eager fp32"])
    assert abs(ours - real) <= INDICES
    drawn = 0 if noise is None else 4 * BATCH * SEQ * config["d_model"] * config["n_layers"]
    monkeypatch.setitem(FAMILIES, "dbrx", config)
    assert ours - counted("dbrx", MODES["eager fp32"]) == drawn > (-1 if noise is None else INDICES)


def documented() -> dict[str, list[str]]:
    """family -> cells, one a mode, of the page's table."""
    cells = r" (=|–|[+-][\d.]+) \|" * len(MODES)
    table = PAGE.read_text().partition("| family | eager fp32 |")[2].partition("\n\n")[0]
    rows = re.findall(rf"^\| `(\w+)` \|{cells}$", table, re.MULTILINE)
    return {name: list(row) for name, *row in rows}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in DAILY else pytest.mark.slow) for n in sorted(FAMILIES)]
)
def test_bytes_are_equal_or_the_difference_is_documented(name: str) -> None:
    """To a fifth of a percent where they differ: which experts tokens choose is a matter of rounding."""
    for mode, written in zip(MODES, documented().get(name, ["="] * len(MODES)), strict=True):
        found = difference(name, mode)
        if found in "=–" or written in "=–":
            assert found == written, mode
        else:
            assert float(found) == pytest.approx(float(written), abs=0.2), mode


@pytest.mark.parametrize("act", ["tanh", "sigmoid", "relu6", "leaky_relu", "hardswish", "mish"])
@pytest.mark.parametrize(("name", "key"), [("gpt2", "activation_function"), ("llama", "hidden_act")])
def test_activations_that_few_models_have(name: str, key: str, act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, and times a gate's other half."""
    monkeypatch.setitem(FAMILIES, name, FAMILIES[name] | {key: act})
    for mode in ("eager fp32", "sdpa autocast"):
        assert difference(name, mode) == "=", mode


@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe"])
@pytest.mark.parametrize(
    ("experts", "named"), [("loop", "eager"), ("grouped", "grouped_mm"), ("batched", "batched_mm")]
)
def test_experts_keep_what_they_do_however_they_run(name: str, experts: Experts, named: str) -> None:
    """But for indices: at most four numbers of 8 bytes for each visit of each layer."""
    layers, visits = FAMILIES[name]["num_hidden_layers"], BATCH * SEQ * FAMILIES[name]["num_experts_per_tok"]
    for mode in ("eager fp32", "sdpa bf16"):
        found = counted(name, MODES[mode], experts), measured(name, MODES[mode], named)
        assert abs(found[0] - found[1]) <= INDICES + 4 * 8 * layers * visits, mode


def test_copies_of_experts_are_moved_timed_and_kept() -> None:
    """32 visits of a decode step read 32 experts' matrices and not those of at most 8, write them, and read them."""
    model = calc.load_model("mixtral-8x7b")
    loop, grouped, batched = (
        calc.estimate(model, "traffic.decode", batch=16, context=1, experts=each).value
        for each in ("loop", "grouped", "batched")
    )
    matrices = 2 * 3 * 4096 * 14336 * 32
    assert grouped < loop < 1.01 * grouped
    assert batched - grouped == pytest.approx((3 * 32 - 8) * matrices, rel=0.02)
    times = [predict(model, "h200", phase="decode", batch=16, experts=each).seconds for each in ("grouped", "batched")]
    assert times[1] > 5 * times[0]
    one, two = (calc.estimate(model, "memory.peak", seq=128, experts="batched", tp=tp).value for tp in (1, 2))
    assert two < 0.6 * one


def test_the_page_lists_families_that_are_measured_and_differ() -> None:
    rows = documented()
    assert set(rows) <= set(FAMILIES)
    assert all(set(row) != {"="} for row in rows.values())
    assert list(rows) == sorted(rows)
