"""What autograd keeps of bytes in patches; to the byte."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from reference_models.saved import saved_tensors as probed  # noqa: E402
from tests.architectures.cases_bytes import BYTES  # noqa: E402
from tests.architectures.test_blt import BATCH, SEQ, lengths, theirs  # noqa: E402
from tests.saved.test_twins import MODES, Mode, check, expected, kept_inputs, measured, size, twin  # noqa: E402

each_case = pytest.mark.parametrize("config", BYTES["blt"], ids=["as usual", "narrow", "three vectors"])


@each_case
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_twin(config: dict[str, Any], mode: Mode) -> None:
    check(from_config({"model_type": "blt", **config}), mode)


@each_case
@pytest.mark.parametrize("mode", [Mode(), Mode("sdpa", autocast=True), Mode("sdpa", "bf16")], ids=str)
def test_full_checkpointing_keeps_each_layers_input(config: dict[str, Any], mode: Mode) -> None:
    """The bytes' vectors once, as what patches keep or as what the layer behind them reads."""
    spec = from_config({"model_type": "blt", **config})
    assert measured(twin(spec, mode), mode, "full").total == kept_inputs(expected(spec, mode))


@each_case
@pytest.mark.parametrize("mode", [Mode(), Mode("sdpa"), Mode("sdpa", "bf16"), Mode(autocast=True)], ids=str)
def test_transformers(config: dict[str, Any], mode: Mode) -> None:
    """A single head of keys that all share is a view that PyTorch's kernel is given, and is counted as copies."""
    spec, settings = from_config({"model_type": "blt", **config}), mode.settings()
    model, tokens = theirs(config).train(), torch.randint(3, 97, (BATCH, SEQ))
    model.set_attn_implementation(mode.execution)
    model = model.to(torch.bfloat16 if mode.dtype == "bf16" else torch.float32)

    def forward() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=mode.autocast):
            return model(tokens, patch_lengths=lengths(spec, SEQ), use_cache=False).logits

    written = saved_tensors(spec, Load(batch=BATCH, seq=SEQ), settings)
    counted = sum(n * each.tensor.bytes for n, each in written.everything()) - size(written.loss)
    few = mode.execution == "sdpa" and any(each.n_kv_heads == 1 for each in spec.attentions)
    kept = probed(model, forward).total
    assert kept <= counted <= kept * (1.01 if few else 1)
