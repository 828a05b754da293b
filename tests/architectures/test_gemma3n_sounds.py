"""Gemma 3n as it hears a sound in each text, against transformers' own class, and its twin."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.parameters import parameters  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors as expected  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from harness.counter import count  # noqa: E402
from reference_models.inputs import example  # noqa: E402
from reference_models.saved import saved_tensors  # noqa: E402
from tests.architectures.cases_media import HEARD  # noqa: E402
from tests.architectures.test_gemma3n import BATCH, EYES, SEQ, heard, of, whole  # noqa: E402
from tests.saved.test_readings import total  # noqa: E402
from tests.saved.test_twins import MODES, Mode, measured, twin  # noqa: E402


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Any:
    return whole(monkeypatch)


@pytest.mark.parametrize("frames", [1, 23, 40])
def test_a_sound_in_each_text(theirs: Any, frames: int) -> None:
    """Fewer vectors than there are places for, and as many."""
    spec, load, given = of(), Load(batch=BATCH, seq=SEQ, source=frames), heard(theirs, frames)
    assert forward(spec, load).total == count(lambda: theirs(**given))
    assert training(spec, load).total == count(lambda: theirs(**given, labels=given["input_ids"]).loss.backward())
    trained = sum(p.numel() for p in theirs.parameters() if p.grad is not None)
    assert frames == 1 or sum(parameters(spec, trainable=True).values()) == trained + EYES + 2048
    once = Load(batch=BATCH, seq=1, context=SEQ, decode=True, source=frames)
    assert forward(spec, once).total == forward(spec, Load(batch=BATCH, seq=1, context=SEQ, decode=True)).total


@pytest.mark.parametrize("frames", [23, 40])
@pytest.mark.parametrize(
    "how",
    [Settings("eager", "fp32", device="cpu"), Settings("eager", device="cpu"), Settings(autocast=True, device="cpu")],
    ids=lambda how: f"{how.dtype} {how.autocast}",
)
def test_what_a_sound_keeps(theirs: Any, how: Settings, frames: int) -> None:
    """Beside what the text alone keeps, to the byte."""
    model = theirs.train()
    model = model.bfloat16() if how.dtype == "bf16" and not how.autocast else model
    given = heard(model, frames)
    text = {"input_ids": given["input_ids"]}

    def kept(given: dict[str, Any]) -> int:
        def forward_pass() -> Any:
            with torch.autocast("cpu", torch.bfloat16, enabled=how.autocast):
                return model(**given, labels=given["input_ids"])

        return saved_tensors(model, forward_pass).total

    with_sound, without = (total(of(), Load(batch=BATCH, seq=SEQ, source=n), how) for n in (frames, None))
    assert with_sound - without == kept(given) - kept(text)


@pytest.mark.parametrize("mode", [MODES[i] for i in (0, 1, 2, 4, 7)], ids=str)
def test_the_twin_with_sounds_computes_and_keeps_as_much(mode: Mode) -> None:
    """Without eyes, which no pass runs."""
    spec, load = of().model_copy(update={"eyes": None}), Load(batch=mode.batch, seq=SEQ, source=23)
    model = twin(spec, mode)
    given = {"inputs": torch.zeros(mode.batch, SEQ, dtype=torch.long)}
    given["sounds"] = example(model, mode.batch, 1, windows=mode.batch, source=23)["sounds"]
    places = torch.arange(SEQ).repeat(mode.batch, 1)
    given["sound_at"] = (places > 1) & (places < 7)
    assert forward(spec, load).total == count(lambda: model(**given))
    written = expected(spec, load, mode.settings())
    found = measured(model, mode, **given)
    assert found.total == sum(n * each.tensor.bytes for n, each in written.everything())


@pytest.mark.parametrize("rows", [6, 8])
def test_sounds_that_no_row_fills_up_are_refused(rows: int) -> None:
    """The vector behind a sound is that of the text's last token, 96, in the table of sounds, which begins at 90."""
    spec = of({"audio_config": HEARD | {"vocab_size": rows, "vocab_offset": 90}})
    assert forward(spec, Load(seq=SEQ)).total > 0
    if rows > 6:
        assert forward(spec, Load(seq=SEQ, source=23)).total > forward(spec, Load(seq=SEQ)).total
        return
    with pytest.raises(Refused, match="source_seq: expected none: the last token"):
        forward(spec, Load(seq=SEQ, source=23))
