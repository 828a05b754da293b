"""Qwen4's layers as modules: streams read through gates, blocks of tokens that an indexer chooses, hashed n-grams."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from calc.architectures import from_config  # noqa: E402
from calc.architectures.hashed_ngrams import head_rows  # noqa: E402
from calc.quantities.flops import forward  # noqa: E402
from calc.spec import Attention, BlockIndexer, Embedding, LayerGroup, Mlp, ModelSpec, NGrams, StreamMixing  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from harness.oracles import MODES  # noqa: E402
from reference_models import build  # noqa: E402
from tests.architectures.cases_recent import HY4  # noqa: E402
from tests.architectures.cases_recurrent import NGRAMS, QWEN4, RECURRENT  # noqa: E402
from tests.reference_models.test_counts import check  # noqa: E402
from tests.reference_models.test_values import pair  # noqa: E402
from tests.strategies import streamed  # noqa: E402

SEQ = 13
INDEXER = BlockIndexer(n_heads=24, d_head=8, rate=2, budget=4)
VECTORS = NGrams(rows=30, d_ngram=8, n=3, heads=(7, 5, 11, 3), multipliers=(5, 9, 17), end=0)


def of(**attention: Any) -> ModelSpec:
    """A small model of two layers, ahead of which n-grams are added."""
    mixer = Attention(n_heads=4, n_kv_heads=2, d_head=8, indexer=INDEXER, **attention)
    layer = LayerGroup(count=2, mixer=mixer, channel=Mlp(), ngrams=VECTORS)
    return ModelSpec(
        d_model=12, vocab_size=31, layers=(layer,), n_streams=3, stream_mixing=StreamMixing(rank=5), final_norm=None
    )


def built() -> tuple[Any, Any]:
    """The model with weights that matter, and tokens for it, some of which end a text."""
    torch.manual_seed(0)
    model = build(of()).double()
    for parameter in model.parameters():
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    return model, torch.randint(5, (2, SEQ))


@settings(max_examples=4, deadline=None)
@given(streamed(), st.sampled_from(MODES))
def test_counts(spec: ModelSpec, checkpointing: str) -> None:
    check(spec.model_copy(update={"embedding": Embedding()}), checkpointing)


@pytest.mark.parametrize("checkpointing", MODES)
@pytest.mark.parametrize(
    ("model_type", "config"), [("hy_v4", HY4), *(("qwen4_exp_text", each) for each in RECURRENT["qwen4_exp_text"][1:])]
)
def test_counts_of_families(model_type: str, config: dict[str, Any], checkpointing: str) -> None:
    """Streams that do not mix: what a block gives is kept for its share, and so its last product runs again."""
    check(from_config({"model_type": model_type, **config}), checkpointing)


@torch.no_grad()
def test_decoding_is_the_parallel_pass() -> None:
    model, tokens = built()
    expected = model(tokens).logits
    torch.testing.assert_close(model(tokens, kernel="sdpa").logits, expected, rtol=1e-5, atol=1e-6)
    for pieces in ([1] * SEQ, [5, 4, 4], [7] + [1] * 6):
        for cache in (model.new_cache(), model.new_cache(SEQ)):
            parts = [model(piece, cache=cache).logits for piece in tokens.split(pieces, dim=1)]
            torch.testing.assert_close(torch.cat(parts, dim=1), expected, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_padding_in_front_changes_nothing() -> None:
    """Nor does it where another sequence of the batch has none."""
    model, tokens = built()
    short, long = tokens[:1, 3:], tokens[1:]
    padded = torch.cat([torch.cat([torch.zeros(1, 3, dtype=torch.long), short], 1), long])
    keep = torch.ones(2, SEQ, dtype=torch.bool)
    keep[0, :3] = False
    found = model(padded, keep=keep).logits
    torch.testing.assert_close(found[:1, 3:], model(short).logits, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found[1:], model(long).logits, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_no_ngram_crosses_the_end_of_a_text() -> None:
    """As transformers' class has it, of texts that end often, at once and token by token."""
    config = QWEN4 | NGRAMS | {"ngram_size": 4, "ple_embed_dim": 24, "indexer_n_heads": 24, "seed": 5}
    theirs, ours = pair("qwen4_exp_text", config, from_config({"model_type": "qwen4_exp_text", **config}))
    tokens = torch.randint(3, (2, 30))
    expected = theirs(tokens, use_cache=False).logits
    torch.testing.assert_close(ours(tokens).logits, expected, rtol=1e-4, atol=1e-4)
    cache, every = ours.new_cache(), transformers.DynamicCache(config=theirs.config)
    for i in range(30):
        one = tokens[:, i : i + 1]
        expected = theirs(one, past_key_values=every, use_cache=True).logits
        torch.testing.assert_close(ours(one, cache=cache).logits, expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_queries_attend_to_whole_blocks_and_what_is_behind_them() -> None:
    model, tokens = built()
    maps = model(tokens, need_weights=True).step.maps[0]
    seen = (maps[0, 0] > 0).sum(-1).tolist()
    assert seen == [min((i + 1) // 2, 2) * 2 + (i + 1) % 2 for i in range(SEQ)]
    assert torch.equal((maps > 0).all(1), (maps > 0).any(1))
    load = Load(seq=SEQ, scores="causal-exact")
    plain = of().model_copy(
        update={"layers": tuple(each.model_copy(update={"mixer": _unchosen(each)}) for each in of().layers)}
    )
    hidden = forward(plain, load).attention - (forward(of(), load).attention - _scores_of_blocks())
    assert hidden == 2 * 2 * 4 * (8 + 8) * (SEQ * (SEQ + 1) // 2 - sum(seen))


def _unchosen(group: LayerGroup) -> Attention:
    assert isinstance(group.mixer, Attention)
    return group.mixer.model_copy(update={"indexer": None})


def _scores_of_blocks() -> int:
    """FLOPs of two layers' indexers: 24 heads of width 8 against the blocks that are complete."""
    return 2 * 2 * 24 * 8 * sum((i + 1) // 2 for i in range(SEQ))


@pytest.mark.parametrize("least", [1, 2, 90, 1000, 20_000_000])
def test_rows_are_primes(least: int) -> None:
    """By division, as transformers finds them."""
    found = head_rows(least, 3, 5)
    primes = [n for n in range(least, found[-1] + 1) if n > 1 and all(n % i for i in range(2, int(n**0.5) + 1))]
    assert found == tuple(primes[3:])
