"""The same model with other kinds of attention."""

from __future__ import annotations

import calc
from calc.ask.variants import KV_RANK, attention_variants


def bytes_per_token(spec: calc.ModelSpec) -> int:
    return calc.kv_cache(spec, 1, 1).total_bytes


def test_caches_follow_the_textbook() -> None:
    spec = calc.load_model("llama-3-70b")  # 80 layers, 64 heads of 128, 8 groups
    found = {name: bytes_per_token(each) for name, each in attention_variants(spec).items()}
    assert found.pop(f"MLA, latents of {KV_RANK} + 64") == 80 * (512 + 64) * 2
    assert found == {
        "MHA": 80 * 2 * 64 * 128 * 2,
        "MQA": 80 * 2 * 128 * 2,
        "GQA, 8 groups": bytes_per_token(spec),
        "window of 4,096": bytes_per_token(spec),
    }
    window = attention_variants(spec)["window of 4,096"]
    assert calc.kv_cache(window, 1, 2**20).total_bytes == 4096 * bytes_per_token(spec)


def test_groups_that_do_not_divide_the_heads_are_left_out() -> None:
    assert "GQA, 8 groups" not in attention_variants(calc.load_model("gpt2"))  # 12 heads


def test_what_is_no_decoder_of_attention_has_none() -> None:
    assert attention_variants(calc.load_model("bert-base")) == {}
    assert attention_variants(calc.load_model("ast-base")) == {}
