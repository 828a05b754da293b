"""Every time stands beside whether it fits, by the model of memory that `memory` has."""

from __future__ import annotations

import json
from typing import Any

import pytest

import calc
from calc.memory.totals import memory_ranks
from calc.spec.catalogue import load_device
from calc.time import predict
from tests.cli.test_commands import Run, run

__all__ = ["run"]

GIB = 2**30
ROOM = load_device("h100-sxm").usable
LLAMA = calc.load_model("llama-3-8b")


def test_a_cache_that_is_too_large_is_said() -> None:
    """Keys and values of 32 layers, 8 heads of 128, two bytes: 128 KiB a token."""
    found = predict(LLAMA, "h100-sxm", phase="decode", batch=512, context=8000)
    assert found.fits is False
    cache = 512 * 8001 * 2 * 32 * 8 * 128 * 2
    assert found.memory.live["kv_cache"] == cache
    assert cache < found.memory.peak - 2 * calc.estimate(LLAMA, "params").value < 1.01 * cache
    assert any("does not fit: 515 GiB at the peak" in note for note in found.notes)


@pytest.mark.parametrize(("phase", "cached"), [("forward", 0), ("prefill", 1000), ("decode", 1001)])
def test_weights_and_what_is_cached_are_held_while_a_pass_runs(phase: str, cached: int) -> None:
    memory = predict(LLAMA, "h100-sxm", phase=phase, batch=3, seq=1000, context=1000).memory
    assert memory.held == 2 * calc.estimate(LLAMA, "params").value + 3 * cached * 2**17
    assert memory.peak is not None
    assert memory.held < memory.peak < memory.held + 4 * GIB


def test_logits_of_all_positions_are_held_by_a_forward_pass_alone() -> None:
    forward, prefill = (predict(LLAMA, "h100-sxm", phase=phase, batch=8, seq=2048) for phase in ("forward", "prefill"))
    assert forward.memory.live["logits"] == 8 * 2048 * 128256 * 2
    assert prefill.memory.live.get("logits", 0) <= 8 * 128256 * 2


@pytest.mark.parametrize("plan", [{}, {"tp": 8, "checkpointing": "full"}, {"dp": 8, "zero": 3, "recipe": "bf16"}])
def test_a_step_of_training_fits_where_memory_says_so(plan: dict[str, Any]) -> None:
    found = predict(LLAMA, "h100-sxm", phase="training", batch=2, seq=4096, **plan)
    peak = max(rank.peak for rank in memory_ranks(LLAMA, found.run.changed(mode="training")))
    assert found.memory.peak == peak
    assert found.fits is (peak <= ROOM)


def test_prompts_that_must_be_read_in_pieces_are_said() -> None:
    """A token for 400 sequences fits; reading their 800,000 tokens in one pass beside their cache does not."""
    found = predict(LLAMA, "h100-sxm", phase="decode", batch=200, context=2000, execution="compiled")
    assert found.fits is True
    assert any(note.startswith("fits where prompts are read in pieces") for note in found.notes)


def test_nothing_is_claimed_of_what_is_not_known() -> None:
    """Recurrent layers outside compiled runs are not counted: weights alone decide, or nothing does."""
    small, large = calc.load_model("zamba2-2.7b"), calc.load_model("llama-3-70b")
    open_question = predict(small, "h100-sxm", phase="forward", seq=64, execution="sdpa")
    assert open_question.fits is None
    assert "compiled" in open_question.memory.unknown
    assert predict(large, "h100-sxm", phase="prefill", seq=64).fits is False


def test_the_command_says_it_in_words_and_in_json(run: Run) -> None:
    asked = ("predict", "llama-3-8b", "--gpu", "h100-sxm", "--phase", "decode", "--batch", "512", "--context", "8000")
    record = json.loads(run(*asked, "--json")[1])
    assert record["fits"] is False
    assert record["memory"]["budget"] == ROOM
    assert record["memory"]["peak"] > record["memory"]["held"] > ROOM
