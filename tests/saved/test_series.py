"""What autograd keeps of time series, to the byte: against transformers' PatchTST, and against the model of ours."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors as what_is_saved  # noqa: E402
from calc.spec import Attention, LayerGroup, Mlp, ModelSpec, Norm, QkNorm, Series  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from reference_models.saved import saved_tensors  # noqa: E402
from tests.architectures.cases_media import MEDIA  # noqa: E402
from tests.architectures.test_media import build, inputs  # noqa: E402
from tests.saved.test_twins import MODES, check  # noqa: E402

CONFIG, NAMES, VARIANTS = MEDIA["patchtst"]
SETTINGS = (Settings("eager", "fp32", device="cpu"), Settings("sdpa", "bf16", device="cpu"))


def described(name: str, change: dict[str, Any]) -> ModelSpec:
    return from_config({"model_type": "patchtst", "architectures": [name], **CONFIG, **change})


@pytest.mark.parametrize("how", SETTINGS, ids=str)
@pytest.mark.parametrize("change", [{}, *VARIANTS], ids=str)
@pytest.mark.parametrize("name", ["PatchTSTModel", "PatchTSTForPrediction"])
def test_what_transformers_keeps(name: str, change: dict[str, Any], how: Settings) -> None:
    """Beside it a prediction keeps the scale of each channel, which brings it back to where values came from."""
    model = build("patchtst", name, CONFIG | change)
    model.set_attn_implementation(how.execution)
    model = model.to(torch.float32 if how.dtype == "fp32" else torch.bfloat16).train()
    given, load = inputs("patchtst", model.config)
    values = given["past_values"].to(next(model.parameters()).dtype)
    found = saved_tensors(model, lambda: model(past_values=values)).total
    ours = sum(n * each.tensor.bytes for n, each in what_is_saved(described(name, change), load, how).everything())
    scales = 0 if name == "PatchTSTModel" else load.batch * values.element_size()
    assert found == ours + scales


@pytest.mark.parametrize("change", VARIANTS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_every_head(name: str, change: dict[str, Any]) -> None:
    for mode in MODES:
        check(described(name, change), mode)


BATCH_NORM = Norm(kind="batchnorm", bias=True)


def test_norms_over_a_batch_are_of_whole_vectors() -> None:
    mixer = Attention(n_heads=2, causal=False, position="none", qk_norm=QkNorm(norm=BATCH_NORM))
    layer = LayerGroup(count=1, mixer=mixer, channel=Mlp())
    front = Series(length=8, patch=2, stride=2)
    spec = ModelSpec(d_model=8, embedding=front, layers=(layer,), head=None)
    with pytest.raises(Refused, match=r"norm\.kind: expected layernorm or rmsnorm, unless whole vectors are normed"):
        what_is_saved(spec, Load(batch=2), SETTINGS[0])
