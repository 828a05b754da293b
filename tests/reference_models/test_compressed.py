"""Attention over compressed entries, and residual streams: counts to the integer, same results however it is run."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.kv_cache import kv_cache  # noqa: E402
from calc.spec import CompressedAttention, Compressor, EntryIndexer, LayerGroup, Lora, Mla, Mlp, ModelSpec, Moe, Plane  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from harness.counter import count  # noqa: E402
from harness.oracles import MODES  # noqa: E402
from reference_models import build  # noqa: E402
from reference_models.adapters import adapt, merge  # noqa: E402
from reference_models.blocks.quantized import QuantizedLinear  # noqa: E402
from reference_models.lens import logit_lens  # noqa: E402
from reference_models.quantization import Grid, quantize  # noqa: E402
from tests.reference_models.test_counts import check  # noqa: E402
from tests.strategies import latent  # noqa: E402

INDEXER = EntryIndexer(n_heads=5, d_head=8, top_k=2)
COMPRESSORS = {
    "window": None,
    "entries": Compressor(rate=3),
    "overlapping": Compressor(rate=2, overlap=True),
    "chosen": Compressor(rate=2, overlap=True, indexer=INDEXER),
}
HASHED = Moe(n_experts=4, top_k=2, d_expert=6, d_shared=5, by_token=True)
SEQ = 13


def mixer(compressor: Compressor | None) -> CompressedAttention:
    return CompressedAttention(
        n_heads=4, d_head=8, q_rank=6, window=4, n_out_groups=2, out_rank=5, compressor=compressor
    )


def of(*compressors: Compressor | None) -> ModelSpec:
    groups = tuple(
        LayerGroup(name=f"layers_{i}", count=1, mixer=mixer(made), channel=HASHED if i % 2 else Mlp(gated=True))
        for i, made in enumerate(compressors)
    )
    return ModelSpec(d_model=12, vocab_size=31, layers=groups, n_streams=3)


def built(*compressors: Compressor | None) -> tuple[Any, Any]:
    """A model with weights that matter, and tokens for it."""
    torch.manual_seed(0)
    model = build(of(*compressors)).double()
    for parameter in model.parameters():
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    return model, torch.randint(31, (2, SEQ))


each_kind = pytest.mark.parametrize("compressor", COMPRESSORS.values(), ids=COMPRESSORS)


def turning(mixer: Any) -> bool:
    """Whether it is compressed attention whose index heads are as wide as what turns of a head."""
    compressor = mixer.compressor if isinstance(mixer, CompressedAttention) else None
    narrow = compressor is not None and compressor.indexer is not None and compressor.indexer.d_head < mixer.d_head
    return isinstance(mixer, CompressedAttention) and not narrow


@settings(max_examples=10, deadline=None)
@given(st.data(), st.sampled_from([1, 2, 4]), st.sampled_from(MODES))
def test_counts(data: st.DataObject, n_heads: int, checkpointing: str) -> None:
    drawn = latent(n_heads).filter(turning)
    group = LayerGroup(count=2, mixer=data.draw(drawn), channel=data.draw(st.sampled_from([None, HASHED])))
    streams = data.draw(st.none() | st.integers(1, 4))
    check(ModelSpec(d_model=24, vocab_size=31, layers=(group,), n_streams=streams), checkpointing)


@each_kind
@pytest.mark.parametrize("seq", [1, 2, 3, 7])
def test_training_of_sequences_around_one_entry(compressor: Compressor | None, seq: int) -> None:
    """No gradient flows through projections that no entry is made of."""
    spec = of(compressor, compressor)
    model, tokens = build(spec), torch.zeros(2, seq, dtype=torch.long)
    assert count(lambda: model(tokens).logits.sum().backward()) == training(spec, Load(batch=2, seq=seq)).total


@each_kind
@torch.no_grad()
def test_decoding_is_the_parallel_pass(compressor: Compressor | None) -> None:
    """All tokens at once, one by one and in pieces; the bytes of both caches on the way."""
    model, tokens = built(compressor, compressor)
    whole, spec = model(tokens).logits, model.whole
    for pieces in ([1] * SEQ, [5, 4, 4], [3] + [1] * 7 + [3]):
        cache, static, seen = model.new_cache(), model.new_cache(SEQ), 0
        for piece in tokens.split(pieces, dim=1):
            expected = whole[:, seen : seen + piece.shape[1]]
            seen += piece.shape[1]
            for one in (cache, static):
                torch.testing.assert_close(model(piece, cache=one).logits, expected)
            # Twice the bytes of fp32.
            assert cache.nbytes == 2 * kv_cache(spec, 2, seen, "fp32", "cache").total_bytes
        assert static.nbytes == 2 * kv_cache(spec, 2, SEQ, "fp32", "tokens").total_bytes


@each_kind
@torch.no_grad()
def test_flops_of_any_next_token(compressor: Compressor | None) -> None:
    spec = of(compressor)
    model, token = build(spec), torch.zeros(2, 1, dtype=torch.long)
    cache = model.new_cache()
    for context in range(9):
        load = Load(batch=2, seq=1, context=context, decode=True)
        assert count(lambda: model(token, cache=cache)) == forward(spec, load).total


@pytest.mark.parametrize("checkpointing", MODES[1:])
def test_recomputed_gradients_equal_plain(checkpointing: Any) -> None:
    model, tokens = built(*COMPRESSORS.values())

    def gradients(mode: Any) -> list[Any]:
        model.zero_grad()
        model(tokens, checkpointing=mode).logits.square().mean().backward()
        return [p.grad if p.grad is None else p.grad.clone() for p in model.parameters()]

    plain = gradients("none")
    # What chooses among entries has no gradient.
    assert sum(gradient is None for gradient in plain) == sum(".indexer." in n for n, _ in model.named_parameters())
    for one, again in zip(plain, gradients(checkpointing), strict=True):
        torch.testing.assert_close(one, again)


@torch.no_grad()
def test_beams_keep_their_own_entries() -> None:
    model, tokens = built(*COMPRESSORS.values())
    cache = model.new_cache()
    model(tokens[:, :9], cache=cache)
    cache.reorder(torch.tensor([1, 0, 1]))
    swapped = tokens[[1, 0, 1]]
    torch.testing.assert_close(model(swapped[:, 9:], cache=cache).logits, model(swapped).logits[:, 9:])


@torch.no_grad()
def test_the_lens_ends_in_the_logits() -> None:
    model, tokens = built(None, COMPRESSORS["entries"])
    seen = logit_lens(model, tokens)
    assert seen.shape == (3, 2, SEQ, 31)
    torch.testing.assert_close(seen[-1], model(tokens).logits)


@torch.no_grad()
def test_mixing_matrices_are_doubly_stochastic() -> None:
    model, _ = built(None)
    mixed = model.layers[0].mixer_streams(torch.randn(2, SEQ, 3, 12, dtype=torch.float64))[2]
    # Columns come last and are exact but for eps; rows come near.
    for axis, tolerance in ((-2, 1e-5), (-1, 1e-2)):
        torch.testing.assert_close(mixed.sum(axis), torch.ones(2, SEQ, 3).double(), rtol=0, atol=tolerance)


@torch.no_grad()
@pytest.mark.parametrize("calibrated", [False, True])
def test_eight_bits_change_little(calibrated: bool) -> None:
    """Without an indexer, whose choices rounding may change."""
    model, tokens = built(None, COMPRESSORS["entries"], COMPRESSORS["overlapping"])
    before = model(tokens).logits
    quantize(model, Grid(8, group=None), calibration={"inputs": tokens} if calibrated else None)
    assert isinstance(model.layers[0].attention.o_a_proj, QuantizedLinear)
    assert (model(tokens).logits - before).square().mean() < 0.01 * before.square().mean()


@pytest.mark.parametrize("quantized", [False, True])
def test_an_update_of_the_grouped_projection_is_computed_and_learns(quantized: bool) -> None:
    model, tokens = built(None, COMPRESSORS["entries"])
    if quantized:
        quantize(model, Grid(8, group=None))
    before = model(tokens).logits.detach()
    adapt(model, Lora(rank=2, targets=("o_a_proj",)))
    torch.testing.assert_close(model(tokens).logits, before)
    halves = [each for each in model.parameters() if each.requires_grad]
    for half in halves:
        half.data.normal_()
    changed = model(tokens).logits
    changed.square().mean().backward()
    assert len(halves) == 4
    assert all(half.grad is not None and half.grad.any() for half in halves)
    assert not torch.allclose(changed, before)
    torch.testing.assert_close(merge(model, dequantize=quantized)(tokens).logits, changed)


@pytest.mark.parametrize("change", [{"plane": Plane()}, {"inputs": True}], ids=["plane", "inputs"])
@pytest.mark.parametrize(
    "attention",
    [mixer(None), Mla(n_heads=2, kv_rank=4, d_nope=2, d_rope=2, d_value=2)],
    ids=["compressed", "latent"],
)
def test_other_rotary_positions_are_refused(attention: CompressedAttention | Mla, change: dict[str, Any]) -> None:
    turned = attention.model_copy(update={"rope": attention.rope.model_copy(update=change)})
    spec = ModelSpec(d_model=12, vocab_size=31, layers=(LayerGroup(count=1, mixer=turned),))
    with pytest.raises(NotImplementedError, match=rf"Rope\.{next(iter(change))} = .*: no module computes it yet"):
        build(spec, "meta")


def test_refused() -> None:
    model, tokens = built(COMPRESSORS["entries"])
    with pytest.raises(ValueError, match="keep: expected none, as entries are made of neighbouring tokens"):
        model(tokens, keep=torch.ones_like(tokens, dtype=torch.bool))
    with pytest.raises(ValueError, match="room for 1 entries, found 4"):
        model(tokens, cache=model.new_cache(3))
    narrow = Compressor(rate=2, indexer=INDEXER.model_copy(update={"d_head": 6}))
    with pytest.raises(ValueError, match="width: expected at least the 8 values that turn, found 6"):
        build(of(narrow))(tokens)
    post = LayerGroup(count=1, mixer=mixer(None), placement="post")
    with pytest.raises(NotImplementedError, match="n_streams: no module computes them beside placement"):
        build(ModelSpec(d_model=12, vocab_size=31, layers=(post,), n_streams=2))
