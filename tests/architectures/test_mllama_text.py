"""The text of Llama 3.2 Vision without its pictures, which skips the layers that look at them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.memory.conditions import check  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.kv_cache import kv_cache  # noqa: E402
from calc.quantities.parameters import parameters  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors as what_is_saved  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.spec.run import Run  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from harness.counter import count  # noqa: E402
from reference_models import build  # noqa: E402
from reference_models.saved import saved_tensors  # noqa: E402
from tests.architectures.cases_media import CROSSED  # noqa: E402

BATCH, SEQ = 2, 12
CONFIGS = [{}, {"cross_attention_layers": [4, 0, 9], "num_key_value_heads": 4}, {"cross_attention_layers": []}]
PROJECTIONS = {f"self_attn.{name}_proj": f"attention.{name}_proj" for name in "qkvo"} | {
    f"mlp.{name}_proj": f"mlp.{name}_proj" for name in ("gate", "up", "down")
}
NORMS = {"input_layernorm": "attention_norm", "post_attention_layernorm": "channel_norm"}


def theirs(change: dict[str, Any], name: str = "MllamaForCausalLM") -> Any:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(**CROSSED | change)
    return getattr(transformers, name)._from_config(config, attn_implementation="eager").eval()


@pytest.mark.parametrize("change", CONFIGS, ids=["usual", "first and last", "none"])
def test_weights_products_and_cache(change: dict[str, Any]) -> None:
    """Training changes no weight of a skipped layer, to which no gradient comes."""
    model, spec, given = theirs(change), from_config(CROSSED | change), torch.randint(3, 90, (BATCH, SEQ))
    assert sum(parameters(spec).values()) == sum(p.numel() for p in model.parameters())
    load = Load(batch=BATCH, seq=SEQ)
    assert forward(spec, load).total == count(lambda: model(given))
    assert training(spec, load).total == count(lambda: model(given, labels=given).loss.backward())
    assert sum(parameters(spec, trainable=True).values()) == sum(
        p.numel() for p in model.parameters() if p.grad is not None
    )
    with torch.no_grad():
        cache = model(given, use_cache=True).past_key_values
        once = Load(batch=BATCH, seq=1, context=SEQ, decode=True)
        assert forward(spec, once).total == count(lambda: model(given[:, :1], past_key_values=cache))
        held = model(given, use_cache=True).past_key_values.layers
    kept = sum(t.nbytes for layer in held if layer.is_initialized for t in (layer.keys, layer.values))
    assert kv_cache(spec, BATCH, SEQ, "fp32", "cache").total_bytes == kept


def test_what_autograd_keeps_and_what_the_twin_gives() -> None:
    model, given = theirs({}), torch.randint(3, 90, (BATCH, SEQ))
    spec = from_config(CROSSED)
    ours = build(spec).eval()
    own, found = dict(ours.named_parameters()), dict(model.named_parameters())
    runs = [i for i in range(5) if i not in CROSSED["cross_attention_layers"]]
    named = {"model.embed_tokens": "embedding.token", "model.norm": "final_norm", "lm_head": "lm_head"}
    for i, layer in enumerate(runs):
        named |= {f"model.layers.{layer}.{a}": f"layers.{i}.{b}" for a, b in (PROJECTIONS | NORMS).items()}
    with torch.no_grad():
        for path, name in named.items():
            own[f"{name}.weight"].copy_(found[f"{path}.weight"])
        torch.testing.assert_close(ours(given).logits, model(given).logits, rtol=1e-5, atol=1e-5)
    for dtype in ("fp32", "bf16"):
        model = theirs({}).to(torch.float32 if dtype == "fp32" else torch.bfloat16).train()
        kept = saved_tensors(model, lambda model=model: model(given, labels=given, use_cache=False)).total
        written = what_is_saved(spec, Load(batch=BATCH, seq=SEQ), Settings("eager", dtype, device="cpu"))
        counted = int(sum(n * each.tensor.bytes for n, each in written.everything()))
        assert abs(counted - kept) <= 4 * 8 * BATCH * SEQ


def test_vectors_alone_and_what_is_refused() -> None:
    whole, alone = from_config(CROSSED), from_config(CROSSED | {"architectures": ["MllamaTextModel"]})
    logits = sum(parameters(whole).values()) - sum(parameters(alone).values())
    assert logits == CROSSED["vocab_size"] * CROSSED["hidden_size"]
    assert sum(parameters(alone).values()) == sum(p.numel() for p in theirs({}, "MllamaTextModel").parameters())
    for change, field in (
        ({"cross_attention_layers": [0, 1, 2, 3, 4]}, "cross_attention_layers"),
        ({"architectures": ["MllamaModel"]}, "architectures"),
        ({"head_dim": 16}, "head_dim"),
    ):
        with pytest.raises(Refused) as refusal:
            from_config(CROSSED | change)
        assert refusal.value.field == field
    for field in ("tp", "pp"):
        ranks: dict[str, Any] = {field: 2}
        with pytest.raises(Refused, match=rf"^{field}: expected 1 beside layers that a text skips"):
            check(whole, Run(phase="training", batch=2, seq=32, micro_batches=2, **ranks))
    check(whole, Run(phase="training", batch=2, seq=32, cp=2))
