"""Twins of the families that see: counts against `calc`, and decoding against one parallel pass."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from calc.architectures import from_config  # noqa: E402
from calc.blocks.projector import projector  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.parameters import parameter_shapes  # noqa: E402
from calc.spec import Dense, Norm, Projector  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.trace.part import Part, leaves  # noqa: E402
from calc.trace.tensor import Tensor  # noqa: E402
from calc.trace.trace import Trace  # noqa: E402
from harness.counter import count  # noqa: E402
from harness.oracles import MODES  # noqa: E402
from reference_models import build  # noqa: E402
from reference_models.blocks.projector import Projection  # noqa: E402
from reference_models.inputs import example  # noqa: E402
from tests.architectures.cases_vision import SEEING  # noqa: E402
from tests.reference_models.counted import countable  # noqa: E402
from tests.reference_models.test_counts import check, shallow  # noqa: E402

NORM = Norm(kind="layernorm", bias=True)
TEXT = [(name, config) for name, configs in SEEING.items() for config in configs if "text_config" not in config]
SEEN = [(name, config) for name, configs in SEEING.items() for config in configs if "vision_config" in config]
EVERY = [(*case, "none") for case in TEXT] + [
    (name, SEEING[name][0], mode) for name in ("gemma4_text", "llama4_text") for mode in MODES[1:]
]


@pytest.mark.parametrize(("model_type", "config", "checkpointing"), EVERY)
def test_counts_of_language_models(model_type: str, config: dict[str, Any], checkpointing: str) -> None:
    check(from_config({"model_type": model_type, **config}), checkpointing)


@pytest.mark.parametrize(("model_type", "config"), TEXT)
@pytest.mark.parametrize("room", [None, 16])
def test_decoding_equals_one_parallel_pass(model_type: str, config: dict[str, Any], room: int | None) -> None:
    """Chunks, borrowed keys and values, inputs of every layer's own: token by token and all at once."""
    torch.manual_seed(0)
    model = build(from_config({"model_type": model_type, **config})).double().eval()
    tokens = torch.randint(90, (2, 14))
    with torch.no_grad():
        whole = model(tokens).logits
        cache = model.new_cache(room)
        steps = [model(tokens[:, :7], cache=cache).logits]
        steps += [model(tokens[:, i : i + 1], cache=cache).logits for i in range(7, 14)]
    torch.testing.assert_close(torch.cat(steps, dim=1), whole)


PROJECTORS = (
    Projector(layers=(Dense(name="one", bias=False),)),
    Projector(merge=4, before=NORM, layers=(Dense(name="one"), Dense(name="two"))),
    Projector(merge=4, norm=NORM, skip=1, layers=(Dense(name="one", d_out=24), Dense(name="two", bias=False))),
    Projector(merge=4, layers=(Dense(name="one"), Dense(name="two", d_out=24, activated=False), Dense(name="three"))),
    Projector(merge=2, join="mean", norm=Norm(), layers=(Dense(name="one"),)),
    Projector(merge=3, join="mean-product", norm=Norm(affine=False), layers=(Dense(name="one"),)),
)


@pytest.mark.parametrize("spec", PROJECTORS)
def test_projectors(spec: Projector) -> None:
    """Weights, FLOPs forward and back; the vectors that it reads need a gradient."""
    module = Projection(spec, 16, 40)
    seq, t = 12 + spec.skip, Trace()
    projector(t, spec, Tensor(3 * seq, 16), 40, Load(batch=3, seq=seq))
    (part,) = (child for child in t.body if isinstance(child, Part))
    weights = {weight.key: weight.shape for leaf in leaves(part) for weight in leaf.op.weights}
    assert {name: tuple(p.shape) for name, p in module.named_parameters()} == weights
    once = sum(leaf.op.flops for leaf in leaves(part))
    back = sum(leaf.op.flops * (1 + bool(leaf.op.weights)) for leaf in leaves(part))
    x = torch.randn(3, 12 + spec.skip, 16, requires_grad=True)
    assert count(lambda: module(x)) == once
    assert count(lambda: module(x).sum().backward()) == once + back


def test_the_mean_as_a_product_is_the_mean() -> None:
    ways = [Projector(merge=3, join=join, layers=(Dense(name="one"),)) for join in ("mean", "mean-product")]
    one, two = (Projection(spec, 8, 4) for spec in ways)
    two.load_state_dict(one.state_dict())
    x = torch.randn(2, 12, 8)
    torch.testing.assert_close(one(x), two(x))


@pytest.mark.slow
@pytest.mark.parametrize(("model_type", "config"), SEEN)
def test_counts_with_pictures(model_type: str, config: dict[str, Any]) -> None:
    """Paths, and FLOPs forward and back with two pictures read beside the text."""
    spec = shallow(from_config({"model_type": model_type, **config}))
    model = countable(spec)
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == parameter_shapes(spec)
    load, arguments = Load(batch=2, seq=7, images=2), example(model, 2, 7, images=2)
    assert count(lambda: model(**arguments)) == forward(spec, load).total

    def step() -> None:
        out = model(**arguments)
        sum(each.sum() for each in (out.logits, out.seen, *out.deep)).backward()

    assert count(step) == training(spec, load).total


def test_pictures_enter_where_the_tokens_say() -> None:
    """A picture changes what comes behind it and nothing before; DeepStack's features enter the first layers too."""
    torch.manual_seed(0)
    spec = from_config({"model_type": "qwen3_vl", **SEEING["qwen3_vl"][0]})
    assert spec.vision is not None
    spec = spec.model_copy(update={"vision": spec.vision.model_copy(update={"among_tokens": "tokens"})})
    model = build(spec).eval()
    arguments = example(model, 1, 20, images=1)
    at = torch.zeros(1, 20, dtype=torch.bool)
    at[0, 5:14] = True
    with torch.no_grad():
        blind = model(arguments["inputs"]).logits
        seen = model(**arguments, image_at=at).logits
        model.vision.deepstack[0].fc2.weight.zero_()
        less = model(**arguments, image_at=at).logits
    torch.testing.assert_close(seen[:, :5], blind[:, :5])
    assert not torch.allclose(seen[:, 14:], blind[:, 14:])
    assert not torch.allclose(seen[:, 14:], less[:, 14:])


def test_pictures_that_the_text_reads_in_a_way_of_its_own_are_refused() -> None:
    """Gemma 3's see one another, Qwen3-VL's turn by rows and columns; Llama 4's are tokens like others."""
    for model_type, kind in (("gemma3", "together"), ("qwen3_vl", "in-plane"), ("llama4", "tokens")):
        spec = from_config({"model_type": model_type, **SEEING[model_type][0]})
        assert spec.vision is not None
        assert spec.vision.among_tokens == kind
        model = build(spec).eval()
        arguments = example(model, 1, 40, images=1)
        at = torch.zeros(1, 40, dtype=torch.bool)
        with torch.no_grad():
            if kind != "tokens":
                with pytest.raises(NotImplementedError, match="among_tokens"):
                    model(**arguments, image_at=at)
            else:
                with pytest.raises(ValueError, match="image_at: expected 16 places"):
                    model(**arguments, image_at=at)
            with pytest.raises(ValueError, match="images"):
                model(arguments["inputs"], image_at=at)
