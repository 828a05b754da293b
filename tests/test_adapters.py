"""Adapters in `calc`: what they add, what stays frozen, and what no longer goes back.

`tests/reference_models/test_adapters.py` counts the same with torch.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import calc
from calc.architectures.models import from_toml
from calc.cli import cli
from calc.errors import Refused
from calc.quantities import flops
from calc.quantities.kv_cache import kv_cache
from calc.quantities.parameters import parameter_shapes, parameters
from calc.spec import (
    Adapter,
    Bottleneck,
    CompressedAttention,
    DeltaNet,
    LayerGroup,
    LinearAttention,
    Lora,
    Mla,
    Mlp,
    ModelSpec,
    Moe,
    Prefix,
    Prompt,
    Shorthand,
)
from calc.spec.load import Load
from calc.spec.resizing import symbolic, with_sizes
from harness.oracles import MODES
from tests.strategies import norms

ADAPTERS: tuple[Adapter, ...] = (
    Lora(rank=3),
    Lora(rank=2, targets=("k_proj", "o_proj")),
    Lora(rank=2, targets=("down_proj",)),
    Prefix(length=5),
    Prompt(length=5),
    Bottleneck(width=6),
)
TINY = Shorthand(d_model=32, n_layers=5, n_heads=4, vocab_size=97, max_seq_len=512).expand()


def beside(spec: ModelSpec, adapter: Adapter) -> ModelSpec:
    return spec.model_copy(update={"adapter": adapter})


@pytest.mark.parametrize(
    ("rank", "targets", "millions"), [(1, ("q_proj", "v_proj"), 4.7), (8, ("q_proj", "v_proj"), 37.7)]
)
def test_gpt3_as_published(rank: int, targets: tuple[str, ...], millions: float) -> None:
    """Hu et al. 2021 (arXiv:2106.09685), table 4: trained parameters of GPT-3 175B."""
    gpt3 = calc.load_model("gpt3-175b")
    groups = tuple(g.model_copy(update={"mixer": g.mixer.model_copy(update={"fused": False})}) for g in gpt3.layers)
    spec = beside(gpt3.model_copy(update={"layers": groups}), Lora(rank=rank, targets=targets))
    (trained,) = parameters(spec, trainable=True).values()
    assert trained == 96 * 2 * rank * 2 * 12288
    assert round(trained / 1e6, 1) == millions


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda it: f"{it.kind} {getattr(it, 'targets', '')}")
def test_only_the_adapter_is_trained(adapter: Adapter) -> None:
    spec = beside(TINY, adapter)
    all_of_it, trained = parameters(spec), parameters(spec, trainable=True)
    assert trained == {"adapter": all_of_it["adapter"]}
    assert {k: v for k, v in all_of_it.items() if k != "adapter"} == parameters(TINY)
    added = parameter_shapes(spec).keys() - parameter_shapes(TINY).keys()
    assert parameter_shapes(TINY).items() <= parameter_shapes(spec).items()
    assert added
    assert calc.estimate(spec, "params.trainable").value == trained["adapter"]
    assert calc.estimate(TINY, "params.trainable").value == calc.estimate(TINY, "params").value


def test_what_goes_back_by_hand() -> None:
    """Updates of every o_proj, 5 layers: nothing goes back below the first, and no frozen weight takes a gradient."""
    spec, load, s, d, r = beside(TINY, Lora(rank=3, targets=("o_proj",))), Load(batch=1, seq=8), 8, 32, 3
    once = flops.forward(spec, load).total
    assert once - flops.forward(TINY, load).total == 5 * 2 * s * r * 2 * d
    square, scores, logits, update = 2 * s * d * d, 2 * s * s * d, 2 * s * d * 97, 2 * s * r * 2 * d
    # A whole layer: 4 matrices of attention, 8 squares of feed-forward, two operands of scores and of values.
    layer = (4 + 8) * square + 4 * scores + 2 * update
    # The first one: feed-forward, both halves of the update, and the input of its B alone.
    first = 8 * square + update + update // 2
    assert flops.training(spec, load).total == once + logits + 4 * layer + first


def test_keys_alone_leave_queries_and_values_of_the_first_layer_be() -> None:
    keys, both = (
        flops.training(beside(TINY, Lora(rank=1, targets=names)), Load(batch=1, seq=64)).attention
        for names in (("k_proj",), ("q_proj", "k_proj", "v_proj"))
    )
    # Without queries and values that are trained: one product of the scores, one of the weighted values.
    assert both - keys == 2 * (2 * 64 * 64 * 32)


def test_layers_before_the_first_adapter_are_passed_by_none() -> None:
    """Experts in the upper half alone: the lower half is as if it were not there, going back and recomputed."""
    load, adapter = Load(batch=1, seq=16), Lora(rank=2, targets=("gate_proj",))
    (dense,) = TINY.layers
    moe = dense.model_copy(update={"name": "sparse", "channel": Moe(n_experts=4, top_k=2, d_expert=8)})
    for schedule in (None, ("layers",) * 3 + ("sparse", "layers", "layers") + ("sparse",) * 4):
        spec = beside(TINY.model_copy(update={"layers": (dense, moe), "schedule": schedule}), adapter)
        more = TINY.model_copy(
            update={
                "layers": (dense.model_copy(update={"count": 6}), moe),
                "schedule": schedule and ("layers", *schedule),
            }
        )
        one = flops.forward(more, load).total - flops.forward(spec.model_copy(update={"adapter": None}), load).total
        for mode in MODES:
            assert (
                flops.training(beside(more, adapter), load, mode).total - flops.training(spec, load, mode).total == one
            )


def test_cache_of_prompts_and_prefixes() -> None:
    """A prompt is cached like tokens are; a prefix is a weight of the model."""
    plain = kv_cache(TINY, 2, 100)
    assert kv_cache(beside(TINY, Prefix(length=9)), 2, 100) == plain
    assert kv_cache(beside(TINY, Prompt(length=9)), 2, 100).total_bytes == kv_cache(TINY, 2, 109).total_bytes
    decode, longer = (Load(batch=2, seq=1, context=n, decode=True) for n in (100, 109))
    assert flops.forward(beside(TINY, Prompt(length=9)), decode) == flops.forward(TINY, longer)


def everything(spec: ModelSpec, load: Load, mode: str) -> dict[str, object]:
    found: dict[str, object] = dict(parameters(spec, trainable=True))
    for name, count in (("forward", flops.forward(spec, load)), ("training", flops.training(spec, load, mode))):
        found |= {f"{name} linear": count.linear, f"{name} attention": count.attention}
    return found | {"cache": kv_cache(spec, load.batch, load.seq).total_bytes}


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(ADAPTERS), st.sampled_from(MODES), st.integers(1, 9), st.integers(1, 99), norms())
def test_three_readings(adapter: Adapter, mode: str, n_layers: int, seq: int, norm: object) -> None:
    group = TINY.layers[0].model_copy(update={"count": n_layers, "norm": norm})
    spec = beside(TINY.model_copy(update={"layers": (group,)}), adapter)
    exact = everything(spec, Load(batch=3, seq=seq), mode)
    symbols, values = symbolic(spec)
    own = sympy.Symbol("seq", positive=True)
    formulas = everything(symbols, Load(batch=3, seq=own), mode)
    assert {k: sympy.sympify(v).subs(values | {own: seq}) for k, v in formulas.items()} == exact
    columns = {str(symbol): numpy.array([value, value], dtype=float) for symbol, value in values.items()}
    swept = everything(with_sizes(spec, columns), Load(batch=3, seq=seq), mode)
    assert all(numpy.all(numpy.asarray(swept[k]) == float(v)) for k, v in exact.items())


def layered(mixer: object) -> ModelSpec:
    return TINY.model_copy(update={"layers": (LayerGroup(count=2, mixer=mixer, channel=Mlp()),)})


COMPRESSED = CompressedAttention(n_heads=4, d_head=8, q_rank=6, window=4, n_out_groups=2, out_rank=5)
LATENT = Mla(n_heads=4, kv_rank=8, d_nope=4, d_rope=2, d_value=6)
ABSORBED = Load(seq=1, context=8, decode=True, absorbed=True)
DELTA = DeltaNet(n_key_heads=2, n_value_heads=2, d_key=8, d_value=8)
REFUSED: dict[str, Callable[[], object]] = {
    "targets": lambda: parameters(beside(TINY, Lora(rank=2, targets=("q_proj", "qkv_proj")))),
    "of a grouped matrix": lambda: parameters(beside(layered(COMPRESSED), Lora(rank=2, targets=("o_a_proj",)))),
    "of an absorbed matrix": lambda: flops.forward(
        beside(layered(LATENT), Lora(rank=2, targets=("kv_b_proj",))), ABSORBED
    ),
    "prefix of": lambda: parameters(beside(layered(LinearAttention(n_heads=4)), Prefix(length=2))),
    "convention": lambda: calc.estimate(beside(TINY, ADAPTERS[0]), "flops.training", convention="palm"),
    "twice": lambda: Lora(rank=2, targets=("q_proj", "q_proj")),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals(case: Callable[[], object]) -> None:
    with pytest.raises((Refused, ValidationError)):
        case()


def test_blocks_of_unknown_flow_are_fine_where_nothing_is_trained_in_the_first() -> None:
    spec = beside(layered(DELTA), Lora(rank=2, targets=("up_proj",)))
    assert flops.training(spec, Load(seq=8)).total > flops.forward(spec, Load(seq=8)).total


TOML = """
d_model = 32
n_layers = 5
n_heads = 4
vocab_size = 97
max_seq_len = 512
"""


def test_in_a_description() -> None:
    spec = TINY.model_dump_json(exclude_none=True, exclude={"notes"})
    whole = json.loads(spec) | {"adapter": {"kind": "prefix", "length": 5}}
    assert ModelSpec.model_validate_json(json.dumps(whole)).adapter == Prefix(length=5)
    with_table = from_toml(f"{TOML}\n[adapter]\nrank = 3\n", "here", "model")
    assert with_table.adapter == Lora(rank=3)


@pytest.mark.parametrize(
    ("options", "adapter"),
    [
        ("--lora-rank 3", ADAPTERS[0]),
        ("--lora-rank 2 --lora-targets k_proj,o_proj", ADAPTERS[1]),
        ("--prefix 5", ADAPTERS[3]),
        ("--prompt 5", ADAPTERS[4]),
        ("--bottleneck 6", ADAPTERS[5]),
    ],
)
def test_on_the_command_line(capsys: pytest.CaptureFixture[str], options: str, adapter: Adapter) -> None:
    spec = beside(calc.load_model("llama-3-8b"), adapter)
    cli.main(shlex.split(f"params llama-3-8b {options} --json"), standalone_mode=False)
    shown = json.loads(capsys.readouterr().out)
    assert shown["trainable"] == shown["components"]["adapter"] == parameters(spec)["adapter"]
    cli.main(shlex.split(f"flops llama-3-8b --seq 8 --phase training {options} --json"), standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["total"] == flops.training(spec, Load(seq=8)).total


def shown(capsys: pytest.CaptureFixture[str], command: str) -> dict[str, Any]:
    cli.main(shlex.split(f"{command} --json"), standalone_mode=False)
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("options", "vectors"), [("--lora-rank 3", 0), ("--prefix 9", 0), ("--prompt 9", 9)])
def test_cache_on_the_command_line(capsys: pytest.CaptureFixture[str], options: str, vectors: int) -> None:
    found = shown(capsys, f"kv-cache llama-3-8b --seq 100 --batch 2 {options}")
    longer = shown(capsys, f"kv-cache llama-3-8b --seq {100 + vectors} --batch 2")
    assert found["total_bytes"] == longer["total_bytes"]
    assert found["bytes_per_token"] == longer["bytes_per_token"]


@pytest.mark.parametrize(
    ("equation", "adapter", "symbol", "size"),
    [
        # 2 matrices a layer: 4096 -> 4096 and 4096 -> 1024.
        ("params.trainable=54525952", "--lora-rank 8", "lora_rank", 54525952 // (32 * (2 * 4096 + 4096 + 1024))),
        ("params.trainable=4096000", "--prompt 2", "n_prompt", 1000),
        ("params.trainable=655360", "--prefix 2", "n_prefix", 10),
        ("kv_cache=14417920B", "--prompt 10", "seq", 100),
    ],
)
def test_solved_on_the_command_line(
    capsys: pytest.CaptureFixture[str], equation: str, adapter: str, symbol: str, size: int
) -> None:
    best = shown(capsys, f"solve llama-3-8b {equation} --for {symbol} {adapter}")["candidates"][0]
    assert best["sizes"] == {symbol: size}
    assert best["value"] == int(equation.partition("=")[2].removesuffix("B"))


@pytest.mark.parametrize(
    "options", ["--lora-targets q_proj", "--prefix 3 --prompt 3", "--lora-rank 2 --lora-targets a"]
)
def test_refused_on_the_command_line(options: str) -> None:
    with pytest.raises(Refused):
        cli.main(shlex.split(f"params gpt2 {options}"), standalone_mode=False)
