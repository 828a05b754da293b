"""Sequences that hold several documents: sequences of a document's length, and the pairs of a mask in blocks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import calc
from calc.errors import Refused
from calc.quantities.saved_tensors import saved_tensors
from calc.spec import Attention, LayerGroup, Mla, Mlp, ModelSpec
from calc.spec.load import Load
from calc.spec.run import Run
from calc.time import predict
from calc.trace.settings import Settings

torch = pytest.importorskip("torch")

LATENT = Mla(n_heads=4, kv_rank=8, d_nope=6, d_rope=2, d_value=6)


def of(mixer: Any) -> ModelSpec:
    return ModelSpec(d_model=32, vocab_size=50, layers=(LayerGroup(count=2, mixer=mixer, channel=Mlp(d_ff=64)),))


MIXERS = (
    Attention(n_heads=4, n_kv_heads=2),
    Attention(n_heads=4, window=5),
    Attention(n_heads=4, window=4, chunked=True),
    LATENT,
)


@given(document=st.integers(2, 12), n=st.integers(1, 5), batch=st.integers(2, 3), mixer=st.sampled_from(MIXERS))
def test_documents_cost_what_sequences_of_their_length_cost(document: int, n: int, batch: int, mixer: Any) -> None:
    spec, seq = of(mixer), n * document
    for convention in ("torch", "causal-exact"):
        packed = calc.estimate(spec, "flops.training", batch=batch, seq=seq, document=document, convention=convention)
        apart = calc.estimate(spec, "flops.training", batch=batch * n, seq=document, convention=convention)
        assert packed.value == apart.value
    if getattr(mixer, "window", None) is None:  # else masks of windows are smaller ones
        assert kept(spec, batch, seq, document) == kept(spec, batch, seq, None)


def kept(spec: ModelSpec, batch: int, seq: int, document: int | None) -> float:
    found = saved_tensors(spec, Load(batch=batch, seq=seq, document=document), Settings("compiled"))
    return sum(count * each.tensor.bytes for count, each in found.everything())


@pytest.mark.parametrize("document", [1, 3, 8, 24])
def test_pairs_are_those_of_a_mask_in_blocks(document: int) -> None:
    seq, mixer = 24, Attention(n_heads=4)
    number = torch.arange(seq) // document
    seen = (number[:, None] == number) & torch.ones(seq, seq, dtype=torch.bool).tril()
    flops = calc.estimate(of(mixer), "flops.forward", seq=seq, document=document, convention="causal-exact")
    assert flops.terms["attention"] == 2 * 4 * int(seen.sum()) * 32  # layers; scores and values, 2 FLOPs each


def test_attention_takes_less_time_and_the_rest_as_long() -> None:
    spec = calc.load_model("llama-3-8b")
    words = {"phase": "training", "seq": 8192, "execution": "compiled"}
    whole, packed = (predict(spec, "h100-sxm", Run(**words, **more)) for more in ({}, {"document": 1024}))
    ran, less = whole.by_component["attention"], packed.by_component["attention"]
    assert less < 0.7 * ran
    assert whole.seconds - packed.seconds >= ran - less
    assert packed.by_component["mlp"] == whole.by_component["mlp"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("llama-3-8b", {"seq": 100, "document": 33}),
        ("llama-3-8b", {"document": 1024, "mode": "inference"}),
        ("llama-3-8b", {"document": 1024, "execution": "eager"}),
        ("llama-3-8b", {"document": 1024, "cp": 2}),
        ("llama-3-8b", {"document": 0}),
        ("t5-xxl", {"seq": 1024, "document": 256}),
        ("falcon-h1-7b", {"document": 256}),
        ("vit-l", {"document": 64}),
        ("falcon-7b", {"document": 256, "convention": "palm", "phase": "training"}),
    ],
)
def test_what_is_not_described_is_refused(name: str, words: dict[str, Any]) -> None:
    quantity = "flops.training" if "convention" in words else "memory.total"
    with pytest.raises(Refused):
        calc.estimate(calc.load_model(name), quantity, **words)
