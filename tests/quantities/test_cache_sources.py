"""Whose formula a cache is said to be."""

from __future__ import annotations

from hypothesis import given

import calc
from calc.architectures.models import load_model
from calc.blocks.registry import MIXERS
from calc.quantities.cache_sources import KEEPS_NOTHING, SOURCES
from calc.quantities.kv_cache import caches
from calc.spec import ModelSpec
from calc.spec.band_attention import BandAttention
from calc.spec.block_attention import BlockAttention
from calc.spec.chunk_attention import ChunkAttention
from calc.spec.funnel import FunnelAttention
from calc.spec.gated_bias import GatedBias
from calc.spec.mixers import Parallel
from calc.spec.page import PageAttention
from calc.spec.run import exact_run
from calc.spec.windows import WindowAttention
from tests.strategies import in_bands, in_blocks

WITHOUT = (BandAttention, BlockAttention, ChunkAttention, FunnelAttention, GatedBias, PageAttention, WindowAttention)
"""What only encoders have."""


def test_every_mixer_that_keeps_something_has_a_source() -> None:
    assert {kind for kind, _ in SOURCES} == set(MIXERS) - {Parallel, *WITHOUT}


@given(in_bands() | in_blocks())
def test_what_keeps_nothing_is_given_no_formula(spec: ModelSpec) -> None:
    spec = spec.model_copy(update={"layers": tuple(group.model_copy(update={"cross": None}) for group in spec.layers)})
    assert not caches(spec, exact_run(batch=1, seq=32))
    assert calc.estimate(spec, "kv_cache", seq=32).source == KEEPS_NOTHING


def test_a_block_that_layers_share_is_attention_as_any_other() -> None:
    source = calc.estimate(load_model("zamba2-2.7b"), "kv_cache").source
    assert [text.split("(")[1][:4] for text in source.split(";")] == ["Shaz", "Dao "]
