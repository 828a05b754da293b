"""Bytes moved: closed forms, three readings, every model that can be read, and what fusing and caching change."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given, settings

import calc
from calc import Shorthand
from calc.architectures import from_config
from calc.architectures.models import preset_names
from calc.blocks.build import build
from calc.quantities.traffic import (
    BY_PHASE,
    Formats,
    backward_traffic,
    chains,
    decode_traffic,
    forward_traffic,
    moved,
    training_traffic,
)
from calc.spec import Lora, ModelSpec
from calc.spec.load import Load
from calc.spec.resizing import symbolic, with_sizes
from calc.spec.run import KERNELS, Phase, Run
from calc.trace.functions import Attend, Matmul
from calc.trace.part import leaves
from tests import reference
from tests.architectures.cases_recent import ZAYA
from tests.strategies import specs
from tests.time.laid import operations

D, LAYERS, HEADS, VOCAB, SEQ, BATCH = 64, 3, 4, 100, 32, 2
TOKENS = BATCH * SEQ
SCORES = BATCH * HEADS * SEQ * SEQ


def gpt(**fields: Any) -> ModelSpec:
    sizes = {"d_model": D, "n_layers": LAYERS, "n_heads": HEADS, "vocab_size": VOCAB, "max_seq_len": SEQ}
    return Shorthand(**{**sizes, "norm": "layernorm", "bias": False, **fields}).expand()


def asked(**fields: Any) -> Run:
    return Run(**{"batch": BATCH, "seq": SEQ, "context": SEQ - 1, **fields})


OUTSIDE = TOKENS * D + SEQ * D + (TOKENS * D + SEQ * D) + TOKENS * D + 2 * TOKENS * D + TOKENS * D + TOKENS * VOCAB
"""Rows of tokens and places written, their sum, the final norm, the head's input and its logits."""


@pytest.mark.parametrize(
    ("kernels", "of_stream", "of_scores", "saved"),
    [
        # Norm, q k v, scores, values, output, sum; norm, up (1 + 4), gelu, down (4 + 1), sum.
        ("eager", 2 + 6 + 2 + 2 + 2 + 3 + 2 + 5 + 8 + 5 + 3, 4, 0),
        ("sdpa", 40, 0, 0),
        # Behind attention's sum the norm finds it on the chip; embeddings are looked up and added in one.
        ("compiled", 39, 0, 2 * (TOKENS * D + SEQ * D)),
    ],
)
def test_a_dense_gpt_layer_forward(kernels: Any, of_stream: int, of_scores: int, saved: int) -> None:
    """Elements by hand; scores are written, read and written by the softmax, and read by the weighted values."""
    terms = forward_traffic(gpt(), asked(execution=kernels))
    layers = LAYERS * (of_stream * TOKENS * D + of_scores * SCORES)
    assert terms["activations"] == 2 * (layers + OUTSIDE - saved)


def test_weights_are_read_once_and_tables_by_the_row() -> None:
    spec = gpt()
    matrices = LAYERS * 12 * D * D + D * VOCAB
    norms = (2 * LAYERS + 1) * D
    assert sum(leaf.calls * leaf.op.weights_read for leaf in leaves(build(spec, Load(BATCH, SEQ)))) == (
        matrices + norms + TOKENS * D + SEQ * D
    )
    assert forward_traffic(spec, asked())["weights"] == 2 * (matrices + norms + TOKENS * D + SEQ * D)


def test_going_back_through_one_product() -> None:
    """g and W give the gradient of x, g and x that of W: 2 g, W, x read, and two gradients written."""
    spec = gpt(n_layers=1)
    query = asked(execution="eager")
    leaf = next(each for each in leaves(build(spec, query.load())) if each.op.name == "o_proj")
    one = backward_traffic([leaf], "eager", Formats())
    assert one == {"weights": 2 * D * D, "activations": 2 * (2 * TOKENS * D + 2 * TOKENS * D), "gradients": 2 * D * D}


def test_attention_in_the_open_going_back() -> None:
    """As FlashAttention's algorithm 4 counts standard attention: 11 passes over N x N, 4 forward and 7 back."""
    short, long = (
        sum(training_traffic(gpt(max_seq_len=n), asked(seq=n, execution="eager")).values()) for n in (SEQ, 2 * SEQ)
    )
    flash = [sum(training_traffic(gpt(max_seq_len=n), asked(seq=n, execution="sdpa")).values()) for n in (SEQ, 2 * SEQ)]
    # What the length's square multiplies; what kernels for attention read again of its result grows with the length.
    squares = 11 * SCORES * LAYERS * 2
    extra = [short - flash[0], long - flash[1]]
    assert extra[1] - 2 * extra[0] == 4 * squares - 2 * squares


def test_decoding_reads_all_weights_and_the_whole_cache() -> None:
    spec = gpt(n_kv_heads=2)
    terms = decode_traffic(spec, asked())
    cached = LAYERS * BATCH * 2 * 2 * (D // HEADS) * 2  # bytes a token: batch, keys and values, kv heads, d_head
    assert terms["cache"] == cached * SEQ  # SEQ - 1 read, and the new one's written
    assert terms["cache"] == calc.kv_cache(spec, BATCH, SEQ).total_bytes


def test_experts_that_are_visited() -> None:
    moe: dict[str, Any] = {"n_experts": 8, "top_k": 2, "d_expert": 32, "gated": True}
    spec = gpt(**moe)
    one = 3 * D * 32

    def read(batch: int, routing: str) -> float:
        tree = build(spec, Load(batch, 1, context=7, decode=True, routing=routing))
        return sum(leaf.op.weights_read for leaf in leaves(tree) if ".experts." in leaf.path) / one

    assert [read(batch, "balanced") for batch in (1, 2, 4, 100)] == [2, 4, 8, 8]
    assert [read(batch, "uniform") for batch in (1, 2, 3, 400)] == [2, 3.5, 4.625, 8]
    for name in ("balanced", "uniform", "power-law:1"):
        run = asked(phase="decode", routing=name)
        kernels = [each for each in operations(spec, run) if ".experts." in each.path and "up" in each.path]
        (shape,) = {each.shape for each in kernels}
        assert isinstance(shape, Matmul)
        assert shape.groups == read(BATCH, name)
        assert shape.m * shape.groups == BATCH * 2


@settings(max_examples=25, deadline=None)
@given(specs())
def test_fusing_never_moves_more(spec: ModelSpec) -> None:
    for phase in ("forward", "decode") if spec.decodes else ("forward",):
        found = [sum(BY_PHASE[phase](spec, Run(batch=2, seq=40, context=9, execution=k)).values()) for k in KERNELS]
        assert found == sorted(found, reverse=True)


@settings(max_examples=25, deadline=None)
@given(specs())
def test_what_is_told_hangs_together(spec: ModelSpec) -> None:
    """Products as large as their FLOPs; nothing on the chip that is not moved; chains hold every op once."""
    everything = list(leaves(build(spec, Load(2, 33))))
    for op in (leaf.op for leaf in everything):
        assert op.reads >= 0
        assert op.writes >= 0
        if isinstance(op.shape, Matmul):
            m, n, k, groups = op.shape.m, op.shape.n, op.shape.k, op.shape.groups
            assert op.flops in (0, pytest.approx(2 * m * n * k * groups)) or op.component == "ssm"
        if isinstance(op.shape, Attend):
            width = op.shape.d_head if op.function == "scores" else op.shape.d_value
            pairs = op.shape.groups * op.shape.heads * op.shape.queries * op.shape.keys
            assert op.flops == 2 * pairs * width
    for kernels in KERNELS:
        made = chains(everything, kernels)
        assert [leaf for chain in made for leaf in chain] == [leaf for leaf in everything if leaf.op.writes]
        assert all(min(moved(chain)) >= 0 for chain in made)


@settings(max_examples=15, deadline=None)
@given(specs())
def test_three_readings(spec: ModelSpec) -> None:
    """Ints, symbols with the numbers put in, and arrays."""
    in_symbols, values = symbolic(spec)
    columns = with_sizes(spec, {"d_model": numpy.array([float(spec.d_model)])})
    phases: tuple[Phase, ...] = ("training", "decode") if spec.decodes else ("training",)
    for phase in phases:
        query = Run(batch=2, seq=37, context=21, phase=phase)
        exact = BY_PHASE[phase](spec, query)
        of_symbols, of_arrays = BY_PHASE[phase](in_symbols, query), BY_PHASE[phase](columns, query)
        for name, value in exact.items():
            given = getattr(of_symbols[name], "subs", lambda _, same=of_symbols[name]: same)(values)
            # Experts that are reached are an expectation, which is a float.
            assert given == value or float(given) == pytest.approx(float(value), rel=1e-12)
            assert float(numpy.asarray(of_arrays[name]).reshape(-1)[0]) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("quantity", ["traffic.forward", "traffic.training", "traffic.decode"])
@pytest.mark.parametrize("model", ["gpt2", "llama-3-8b"])
def test_formulas(model: str, quantity: str) -> None:
    """`explain` refuses a formula that does not give the count."""
    explanation = calc.explain(calc.load_model(model), quantity, batch=2, seq=512, context=511)
    assert explanation.estimate.unit == "bytes"
    assert explanation.estimate.value == sum(explanation.estimate.terms.values())


def test_the_batch_that_doubles_intensity_in_decoding() -> None:
    """Weights are read once whatever the batch: in 16 bits one sequence has about 1 FLOP a byte, and n have n."""
    spec = calc.load_model("llama-3-8b")

    def intensity(batch: int) -> float:
        run = Run(batch=batch, context=1)
        return calc.estimate(spec, "flops.decode", run=run).value / sum(decode_traffic(spec, run).values())

    one, many = intensity(1), intensity(16)
    assert one == pytest.approx(1, rel=0.1)
    assert many == pytest.approx(16, rel=0.1)


def test_checkpointing_moves_more_and_adapters_less() -> None:
    spec = gpt()
    plain, full = (sum(training_traffic(spec, asked(checkpointing=how)).values()) for how in ("none", "full"))
    again = training_traffic(spec, asked(checkpointing="full", execution="eager"))
    once = training_traffic(spec, asked(execution="eager"))
    forward = forward_traffic(gpt(), asked(execution="eager"))
    assert plain < full
    layers = forward["activations"] - 2 * OUTSIDE
    assert again["activations"] - once["activations"] == layers
    adapted = spec.model_copy(update={"adapter": Lora(rank=2)})
    assert training_traffic(adapted, asked())["gradients"] < training_traffic(spec, asked())["gradients"] / 10


def test_quantized_weights_move_fewer_bytes() -> None:
    spec = calc.load_model("llama-3-8b")
    bf16, int4 = (decode_traffic(spec, Run(context=100, dtype=name)) for name in ("bf16", "int4:g128"))
    weights = calc.estimate(spec, "weights", dtype="int4:g128").value
    assert spec.vocab_size is not None
    table = 2 * spec.vocab_size * spec.d_model
    assert int4["weights"] == weights - table + 2 * spec.d_model
    assert {**int4, "weights": 0} == {**bf16, "weights": 0}


@pytest.mark.parametrize("record", reference.models(), ids=lambda record: record["name"])
def test_every_real_model_tells_what_it_moves(record: dict[str, Any]) -> None:
    spec = calc.load_model(str(reference.folder() / "truth" / "configs" / f"{record['name']}.json"))
    loads = [Load(2, 64), *([Load(2, 1, context=63, decode=True)] if spec.decodes else [])]
    for load in loads:
        for leaf in leaves(build(spec, load)):
            assert leaf.op.moves is not None or leaf.op.inputs, leaf.path
            assert leaf.op.shape is not None or not leaf.op.flops or leaf.op.function in ("conv1d", "scan"), leaf.path


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_tells_what_it_moves(name: str) -> None:
    spec = calc.load_model(name)
    for leaf in leaves(build(spec, Load(2, 64))):
        assert leaf.op.moves is not None or leaf.op.inputs, leaf.path


@pytest.mark.parametrize("kernels", ["eager", "sdpa"])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_a_stream_in_fp32_moves_so_wide(kernels: Any, dtype: str) -> None:
    """ZAYA1's: two norms of each layer read it, two products and two sums read and write it; the last norm reads it."""
    wide = from_config({"model_type": "zaya", **ZAYA})
    narrow = wide.model_copy(update={"embedding": wide.embedding.model_copy(update={"wide": False})})
    more = 2 * (10 * wide.n_layers + 1) * TOKENS * wide.d_model if dtype == "bf16" else 0
    phases: tuple[Phase, ...] = ("forward", "training")
    for phase in phases:
        run = Run(phase=phase, batch=BATCH, seq=SEQ, execution=kernels, dtype=dtype)
        read, plain = (BY_PHASE[phase](spec, run)["activations"] for spec in (wide, narrow))
        assert read - plain == more if phase == "forward" else read - plain >= 2 * more
    run = Run(phase="forward", batch=BATCH, seq=SEQ, execution=kernels, dtype=dtype)
    told = [sum(kernel.calls * kernel.bytes for kernel in operations(spec, run)) for spec in (wide, narrow)]
    assert told[0] - told[1] == pytest.approx(more)
