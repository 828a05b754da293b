"""Charts of plans: losses add up to the step, and a timeline is drawn with all that it holds."""

from __future__ import annotations

from itertools import pairwise

import pytest

from calc import load_model
from calc.charts import plans
from calc.time import predict, speed_of, waterfall
from calc.time.schedule.of_run import timeline_of
from calc.time.schedule.stage_times import StageTimes
from calc.time.schedule.timeline import timeline


def test_losses_begin_where_the_one_before_ends_and_add_up_to_the_step() -> None:
    found = predict(load_model("gpt2"), "h100-sxm", phase="training", seq=1024, batch=8)
    drawn = plans.waterfall_chart(waterfall(found, speed_of("h100-sxm")))
    *parts, whole = drawn["layer"][0]["data"]["values"]
    assert parts[0]["start"] == 0
    for one, other in pairwise(parts):
        assert other["start"] == one["end"] > one["start"]
    assert parts[-1]["end"] == pytest.approx(whole["end"]) == pytest.approx(found.seconds)


def test_a_timeline_is_drawn_with_all_that_its_stages_do() -> None:
    spec = load_model("llama-3-70b")
    words = {"seq": 4096, "cluster": "dgx-h100", "gpus": 64, "tp": 8, "pp": 4, "micro_batches": 8}
    found = predict(spec, "h100-sxm", phase="training", checkpointing="full", **words)  # pyright: ignore[reportArgumentType]
    line = timeline_of(spec, speed_of("h100-sxm"), found.run)
    rows, names, cut = plans.rows_of(line)
    assert names == [f"stage {n}" for n in range(4)]
    assert not cut
    for place, name in enumerate(names):
        own = [row for row in rows if row["stage"] == name]
        assert all(row["end"] >= row["start"] for row in own)
        busy = sum(row["end"] - row["start"] for row in own)
        sent = sum(event.end - event.start for event in line.stages[place] if event.stream == "network")
        assert busy == pytest.approx(line.seconds - line.idle(place) + sent)
        # Tensor parallelism waits for sums in every micro-batch, and what waits is told apart.
        assert sum(row["kind"] == plans.WAITING for row in own) >= 16
    drawn = plans.stages(rows, line.seconds, names)
    assert len(drawn["layer"][1]["data"]["values"]) == len(rows)


def test_a_long_timeline_is_cut_and_says_so() -> None:
    line = timeline([StageTimes(1.0, 2.0)] * 40, 200)
    rows, names, cut = plans.rows_of(line)
    assert cut
    assert len(names) <= plans.MOST_STAGES + 1
    assert (names[0], names[-1]) == ("stage 0", "stage 39")
    assert len(rows) <= plans.MOST_EVENTS


def test_the_front_is_drawn_from_the_least_memory_and_the_best_is_ringed() -> None:
    rows = [{"plan": f"plan {n}", "reserved": (5 - n) * 2**30, "seconds": 1.0 + n, "front": n != 2} for n in range(4)]
    line, dots, ring, *_ = plans.front(rows, rows[0], 6 * 2**30)["layer"]
    assert [row["plan"] for row in line["data"]["values"]] == ["plan 3", "plan 1", "plan 0"]
    assert len(dots["data"]["values"]) == 4
    assert [row["plan"] for row in ring["data"]["values"]] == ["plan 0"]
