"""What autograd keeps of a text that reads a picture's tiles; to the byte."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors  # noqa: E402
from calc.spec import Lora  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from reference_models.adapters import adapt  # noqa: E402
from reference_models.saved import saved_tensors as probed  # noqa: E402
from tests.architectures.cases_media import MEDIA, MLLAMA  # noqa: E402
from tests.architectures.test_media import build, inputs  # noqa: E402
from tests.saved.test_twins import MODES, SEQ, Mode, check, expected, measured, size, twin  # noqa: E402

VARIANTS = [{}, *MEDIA["mllama"][2]]


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("change", VARIANTS[:3], ids=["plain", "filled by nothing", "three tiles"])
def test_twin(change: dict[str, Any], mode: Mode) -> None:
    check(from_config({"model_type": "mllama", **MLLAMA, **change}), mode)


@pytest.mark.parametrize("how", [Settings("eager", "fp32", device="cpu"), Settings(autocast=True, device="cpu")])
@pytest.mark.parametrize("change", VARIANTS, ids=["plain", "filled by nothing", "three tiles", "as many keys"])
def test_transformers(change: dict[str, Any], how: Settings) -> None:
    name = "MllamaForConditionalGeneration"
    model = build("mllama", name, MLLAMA | change).train()
    given, load = inputs("mllama", model.config)

    def forward_pass() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=how.autocast):
            return model(**given, use_cache=False).logits

    kept = probed(model, forward_pass).total
    spec = from_config({"model_type": "mllama", "architectures": [name], **MLLAMA, **change})
    written = saved_tensors(spec, load, how)
    assert kept == sum(n * each.tensor.bytes for n, each in written.everything()) - size(written.loss)


@pytest.mark.parametrize("how", [Settings("eager", "fp32", device="cpu"), Settings(autocast=True, device="cpu")])
@pytest.mark.parametrize("change", [{}, *MEDIA["mllama_vision_model"][2]], ids=["plain", "filled", "three tiles"])
def test_tower_alone(change: dict[str, Any], how: Settings) -> None:
    config = MEDIA["mllama_vision_model"][0] | change
    model = build("mllama_vision_model", "MllamaVisionModel", config).train()
    given, load = inputs("mllama_vision_model", model.config)

    def forward_pass() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=how.autocast):
            return model(**given)

    spec = from_config({"model_type": "mllama_vision_model", **config})
    written = saved_tensors(spec, load, how).everything()
    assert probed(model, forward_pass).total == sum(n * each.tensor.bytes for n, each in written)


@pytest.mark.parametrize("targets", [("q_proj", "v_proj"), ("o_proj",)])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_low_rank_updates(targets: tuple[str, ...], mode: Mode) -> None:
    """Those of the tower too: what stands ahead of its first layer needs no gradient, what stands behind it does."""
    spec = from_config({"model_type": "mllama", **MLLAMA})
    found = measured(adapt(twin(spec, mode), Lora(rank=2, targets=targets)), mode)
    adapted = spec.model_copy(update={"adapter": Lora(rank=2, targets=targets)})
    written = saved_tensors(adapted, Load(batch=mode.batch, seq=SEQ), mode.settings())
    assert found.total == sum(count * each.tensor.bytes for count, each in written.everything())


@pytest.mark.parametrize("mode", [Mode(), Mode("sdpa", "bf16"), Mode(autocast=True)], ids=str)
def test_full_checkpointing(mode: Mode) -> None:
    spec = from_config({"model_type": "mllama", **MLLAMA})
    written, found = expected(spec, mode), measured(twin(spec, mode), mode, "full")
    inputs = sum(each.count * each.input.bytes for each in written.layers.values())
    assert found.total == size(written.front) + inputs + size(written.end) + size(written.loss)
