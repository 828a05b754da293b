"""What DeepSeek-V4's layers keep, to the byte: entries of every rate, with an indexer and without, and streams."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors  # noqa: E402
from calc.spec import CompressedAttention, Compressor, EntryIndexer, LayerGroup, Lora, Mlp, ModelSpec, Rope  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from reference_models.adapters import adapt  # noqa: E402
from tests.architectures.cases_latent import LATENT_CASES  # noqa: E402
from tests.saved.test_twins import MODES, SEQ, Mode, check, measured, size, twin  # noqa: E402

INDEXER = EntryIndexer(n_heads=2, d_head=6, top_k=2)
COMPRESSORS = (
    None,
    Compressor(rate=5),
    Compressor(rate=5, overlap=True),
    Compressor(rate=4, overlap=True, indexer=INDEXER),
    Compressor(rate=SEQ, overlap=True),
    Compressor(rate=SEQ + 1, indexer=INDEXER),
)


def of(compressor: Compressor | None, **fields: Any) -> ModelSpec:
    """A small model of two layers."""
    sizes: dict[str, Any] = {"n_heads": 4, "d_head": 8, "q_rank": 6, "window": 7, "n_out_groups": 2, "out_rank": 3}
    mixer = CompressedAttention(**sizes, compressor=compressor, rope=Rope(fraction=0.5, interleaved=True))
    return ModelSpec(d_model=16, vocab_size=31, layers=(LayerGroup(count=2, mixer=mixer, channel=Mlp()),), **fields)


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
def test_every_compressor(compressor: Compressor | None) -> None:
    """Also one that completes a single entry, and one that completes none."""
    for mode in MODES:
        check(of(compressor), mode)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_streams_around_other_blocks(mode: Mode) -> None:
    check(of(None, n_streams=3), mode)


@pytest.mark.parametrize("config", LATENT_CASES["deepseek_v4"][1:], ids=range(1, len(LATENT_CASES["deepseek_v4"])))
@pytest.mark.parametrize("mode", MODES[1:5:3], ids=str)
def test_other_configurations(config: dict[str, Any], mode: Mode) -> None:
    check(from_config({"model_type": "deepseek_v4", **config}), mode)


@pytest.mark.parametrize("target", ["q_a_proj", "q_b_proj", "kv_proj", "o_b_proj"])
@pytest.mark.parametrize("mode", [Mode(), Mode("sdpa", "bf16")], ids=str)
def test_low_rank_updates_of_frozen_weights(target: str, mode: Mode) -> None:
    """The first layer, whose input needs no gradient, and the other."""
    lora = Lora(rank=2, targets=(target,))
    spec = of(Compressor(rate=4, overlap=True))
    found = measured(adapt(twin(spec, mode), lora), mode)
    layers = saved_tensors(
        spec.model_copy(update={"adapter": lora}), Load(batch=mode.batch, seq=SEQ), mode.settings()
    ).layers.values()
    assert [found.within(f"layers.{i}") for i in range(2)] == [size(each.saved) for each in layers]


@pytest.mark.parametrize("spec", [of(Compressor(rate=4)), of(None, n_streams=3)], ids=["entries", "streams"])
def test_their_own_kernels_are_refused(spec: ModelSpec) -> None:
    with pytest.raises(Refused, match="of which it is known what"):
        saved_tensors(spec, Load(batch=1, seq=SEQ), Settings("compiled"))
