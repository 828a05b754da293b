"""FLOPs of reading prompts, whose logits are of the last position alone, against transformers' own models."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import calc  # noqa: E402
from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward, prefill  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from tests.architectures import their_models  # noqa: E402
from tests.architectures.varied import CONFIGS  # noqa: E402


@pytest.mark.parametrize("family", ["llama", "qwen3_moe", "gemma2", "deepseek_v3", "mamba2"])
def test_a_head_reads_the_last_position_of_each_sequence(family: str) -> None:
    raw: dict[str, Any] = {"model_type": family, **CONFIGS[family][0]}
    model, tokens = their_models.build(raw), torch.full((3, 26), 5, device="meta")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(input_ids=tokens, logits_to_keep=1)
    assert prefill(from_config(raw), Load(batch=3, seq=26)).total == counter.get_total_flops()


def test_one_token_is_its_own_last() -> None:
    for name in ("gpt2", "t5-xxl", "mixtral-8x7b"):
        spec, load = calc.load_model(name), Load(batch=2, seq=1)
        assert prefill(spec, load) == forward(spec, load)


def test_a_model_that_draws_no_next_token_has_no_prompt() -> None:
    with pytest.raises(Refused, match="go on token by token"):
        calc.estimate(calc.load_model("bert-base"), "flops.prefill")
