"""What a GPU needs to be fast: training steps and decoding compile whole, and decoding asks nothing of the host."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from harness.cases.models import spec_of  # noqa: E402
from reference_models import build  # noqa: E402
from reference_models.objectives import next_token  # noqa: E402
from tests.reference_models.small_models import rng  # noqa: E402

MODELS = ("tiny-gpt", "tiny-llama", "tiny-gqa", "tiny-mla")


def whole(run: Any) -> Any:
    """Compiled without a break, up to the point where kernels are made."""
    torch.compiler.reset()
    return torch.compile(run, fullgraph=True, backend="aot_eager", dynamic=False)


def made(name: str, seq: int = 12) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = build(spec_of(name))
    return model, torch.randint(2003, (2, seq), generator=rng())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "checkpointing"),
    [*((name, "selective") for name in MODELS), ("tiny-llama", "none"), ("tiny-llama", "full")],
)
def test_a_training_step_is_one_graph(name: str, checkpointing: Any) -> None:
    model, tokens = made(name)
    right = next_token(model, tokens)
    right.backward()
    gradients = [each.grad for each in model.parameters()]
    model.zero_grad(set_to_none=True)
    loss = whole(lambda x: next_token(model, x, kernel="sdpa", checkpointing=checkpointing))(tokens)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(float(right.detach()), rel=1e-5)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_decoding_at_a_tensor_is_one_graph(name: str) -> None:
    model, tokens = made(name)
    with torch.no_grad():
        cache = model.new_cache(16)
        model(tokens[:, :8], cache=cache)
        step = whole(lambda token, at: model(token, cache=cache, at=at, kernel="sdpa").logits[:, -1])
        for place in range(8, 12):
            found = step(tokens[:, place : place + 1], torch.tensor(place))
            torch.testing.assert_close(found, model(tokens[:, : place + 1]).logits[:, -1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("name", [*MODELS, "tiny-mqa", "tiny-moe"])
def test_a_tensor_says_where_as_well_as_a_number(name: str, kernel: Any) -> None:
    model, tokens = made(name)
    with torch.no_grad():
        cache = model.new_cache(16)
        model(tokens[:, :11], cache=cache, kernel=kernel)
        found = model(tokens[:, 11:], cache=cache, at=torch.tensor(11), kernel=kernel, last_only=True).logits
        assert cache.length == 11
        assert found.shape[1] == 1
        torch.testing.assert_close(found[:, -1], model(tokens).logits[:, -1], rtol=1e-4, atol=1e-5)


def test_a_tensor_needs_room_and_no_padding() -> None:
    model, tokens = made("tiny-gpt")
    with pytest.raises(ValueError, match="cache that grows"):
        model(tokens, cache=model.new_cache(), at=torch.tensor(0))
    with pytest.raises(ValueError, match="keep: expected none"):
        model(tokens, cache=model.new_cache(12), at=torch.tensor(0), keep=torch.ones(2, 12))
