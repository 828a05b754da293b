"""SeamlessM4T's encoder of speech: what autograd keeps, to the byte, and counts in three readings."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward  # noqa: E402
from calc.spec import ModelSpec, Tower  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from reference_models.saved import saved_tensors  # noqa: E402
from tests.architectures.cases_text import TEXT  # noqa: E402
from tests.architectures.test_text import SEQ as TOKENS  # noqa: E402
from tests.architectures.test_text import SOURCE, inputs  # noqa: E402
from tests.architectures.test_text import build as text_model  # noqa: E402
from tests.reference_models.test_counts import check as counted  # noqa: E402
from tests.saved.test_readings import agree, total  # noqa: E402
from tests.saved.test_twins import MODES, check  # noqa: E402

BY_EARLIER = [{}, {"position_embeddings_type": "rotary"}]
BY_LATER = [{}, {"num_adapter_layers": 2, "adaptor_stride": 2, "adaptor_kernel_size": 2}, {"add_adapter": False}]
CASES = [("seamless_m4t", each) for each in BY_EARLIER] + [("seamless_m4t_v2", each) for each in BY_LATER]
each_case = pytest.mark.parametrize(("family", "change"), CASES)


def raw(family: str, change: dict[str, Any]) -> dict[str, Any]:
    return TEXT[family][0] | change | {"architectures": [TEXT[family][1][1]]}


def of(family: str, change: dict[str, Any]) -> ModelSpec:
    return from_config({"model_type": family, **raw(family, change)})


@each_case
def test_every_mode(family: str, change: dict[str, Any]) -> None:
    for mode in MODES:
        check(of(family, change), mode)


@each_case
@pytest.mark.parametrize("checkpointing", ["none", "selective", "full", "full-early-stop"])
def test_counts(family: str, change: dict[str, Any], checkpointing: str) -> None:
    counted(of(family, change), checkpointing)


@each_case
@pytest.mark.parametrize("how", [Settings(), Settings("sdpa", autocast=True)], ids=lambda how: how.execution)
def test_three_readings_agree(family: str, change: dict[str, Any], how: Settings) -> None:
    agree(of(family, change), how)


@each_case
@pytest.mark.parametrize("how", [Settings("eager", "fp32", device="cpu"), Settings(autocast=True, device="cpu")])
def test_it_keeps_what_transformers_keeps(family: str, change: dict[str, Any], how: Settings) -> None:
    pytest.importorskip("transformers")
    name = TEXT[family][1][1]
    # The first version keeps the sinusoids of all places that it has any for.
    places = {"max_source_positions": SOURCE} if family == "seamless_m4t" else {}
    model = text_model(family, name, TEXT[family][0] | change | places)
    given = inputs(model)

    def forward_pass() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=how.autocast):
            return model(**given, labels=given["decoder_input_ids"].clone())

    kept = saved_tensors(model, forward_pass).total
    load = Load(batch=len(given["input_features"]), seq=TOKENS, source=SOURCE)
    assert total(of(family, change), load, how) == kept


def test_sounds_of_several_chunks_are_refused() -> None:
    """Eager attention and PyTorch's kernel do not agree on what a step sees of them."""
    spec = of("seamless_m4t_v2", {"speech_encoder_chunk_size": 20})
    assert forward(spec, Load(source=20)).total > 0
    with pytest.raises(Refused, match=r"source_seq: expected at most 20 steps"):
        forward(spec, Load(source=21))


@pytest.mark.parametrize(
    ("how", "found"), [({"causal": True}, "shortened.attention"), ({"position": "rope"}, "shortened.attention"),
                       ({"n_heads": 5}, "n_heads")],
)  # fmt: skip
def test_what_shortens_nothing_is_refused(how: dict[str, Any], found: str) -> None:
    tower = of("seamless_m4t_v2", {}).model_dump()["encoder"]
    tower["layers"][-1]["shortened"]["attention"] |= how
    with pytest.raises(ValueError, match=found):
        Tower.model_validate(tower)
    plain = {"d_model": 32, "name": "encoder", "layers": tower["layers"]}
    with pytest.raises(ValueError, match="shortened: expected none, unless frames"):
        Tower.model_validate(plain)


def test_a_sound_that_is_too_short_to_be_heard_is_refused() -> None:
    spec = of("seamless_m4t_v2", {})
    assert forward(spec, Load(seq=1)).total > 0
    with pytest.raises(Refused, match="steps behind a convolution"):
        forward(spec, Load(seq=1, source=1))
