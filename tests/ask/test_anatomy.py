"""Blocks of a model: nothing of it is missing, and branches are told from the stream by the tensors between them."""

from __future__ import annotations

import pytest

from calc import load_model
from calc.architectures.models import preset_names
from calc.ask.anatomy import Frame, anatomy
from calc.ask.parts import part_rows
from calc.charts.architecture import PICKED, diagram
from calc.spec.run import Run

QUERY = Run(phase="forward", seq=256)


def layers(model: str) -> list[Frame]:
    return [frame for frame in anatomy(load_model(model), QUERY) if frame.path]


@pytest.mark.parametrize("model", preset_names())
def test_blocks_add_up_to_the_model(model: str) -> None:
    spec = load_model(model)
    frames = anatomy(spec, QUERY)
    whole = part_rows(spec, QUERY)[0]
    for name, total in (("parameters", whole.total), ("active", whole.total_active), ("flops", whole.total_flops)):
        assert sum(getattr(block, name) * frame.count for frame in frames for block in frame.blocks) == total
    for frame in frames:
        assert not frame.path or len(frame.numbers) == frame.count


@pytest.mark.parametrize(
    ("model", "drawn"),
    [
        ("llama-3-8b", "attention_norm< attention + channel_norm< mlp +"),
        ("bert-base", "attention< + [attention_norm] mlp< + [channel_norm]"),
        ("gemma-2-2b", "attention_norm< attention attention_post_norm + channel_norm< mlp channel_post_norm +"),
        ("falcon-7b", "attention_norm< attention mlp +"),
    ],
)
def test_branches_leave_the_stream_and_come_back_where_they_do(model: str, drawn: str) -> None:
    def told(frame: Frame) -> str:
        return " ".join(
            "+" if block.adds else f"{block.name}{'<' * block.leaves}" if block.branch else f"[{block.name}]"
            for block in frame.blocks
        )

    assert {told(frame) for frame in layers(model)} == {drawn}


def test_of_parallel_blocks_the_second_does_not_follow_the_first() -> None:
    (frame,) = layers("falcon-7b")
    assert [block.follows for block in frame.blocks] == [False, True, False, True]


def test_shapes_say_what_a_block_is_in_few_words() -> None:
    said = {block.name: block.shape for frame in layers("nemotron-3-super") for block in frame.blocks}
    assert said["moe"] == "512 experts, 22 a token"
    assert said["attention"] == "32 heads of 128, 2 of keys"
    assert said["mamba2"] == "4,096 → 18,560 → 4,096"


def test_the_order_of_kinds_is_drawn_layer_by_layer() -> None:
    frames = anatomy(load_model("nemotron-3-super"), QUERY)
    cells = diagram(frames)["layer"][1]["data"]["values"]
    order = [cell["kind"] for cell in cells[:88]]
    assert order[:9] == ["mamba layers", "moe layers"] * 3 + ["mamba layers", "attention layers", "moe layers"]
    assert order.count("attention layers") == 8
    assert len({cell["colour"] for cell in cells}) == 3


def test_a_click_gives_the_path_of_a_block() -> None:
    drawn = diagram(anatomy(load_model("gpt2"), QUERY))
    (body,) = [layer for layer in drawn["layer"] if "params" in layer]
    assert body["params"][0]["name"] == PICKED
    assert {row["path"] for row in body["data"]["values"]} >= {"layers.{}.mlp", "layers.{}.attention", "embedding"}
