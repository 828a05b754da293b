"""The two twins against each other: parameters by path, FLOPs of every pass and bytes of the caches, to the integer.

Models run with eager attention, so that torch's counter sees every product.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import calc  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.kv_cache import kv_cache  # noqa: E402
from calc.quantities.parameters import parameter_shapes  # noqa: E402
from calc.spec import Attention, LayerGroup, ModelSpec, Tower  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from harness.counter import count  # noqa: E402
from harness.oracles import MODES  # noqa: E402
from reference_models.inputs import example  # noqa: E402
from tests.reference_models.counted import countable, long_enough  # noqa: E402
from tests.strategies import specs  # noqa: E402

BATCH, SEQ = 2, 7


@st.composite
def encoder_decoders(draw: st.DrawFn) -> ModelSpec:
    """A random decoder whose sequential layers attend to a random encoder of another width."""
    main, encoder = draw(specs()), draw(specs())
    groups = tuple(
        g.model_copy(update={"cross": _cross(g.mixer), "placement": g.placement.replace("parallel-two-norms", "pre")})
        for g in main.layers
        if g.placement != "parallel"
    ) or (LayerGroup(count=1, cross=Attention(n_heads=2, position="none")),)
    both_sides = tuple(
        g.model_copy(update={"mixer": g.mixer.model_copy(update={"causal": False, "window": None})})
        for g in encoder.layers
    )
    tower = Tower(
        name="encoder",
        d_model=encoder.d_model,
        embedding=encoder.embedding,
        layers=both_sides,
        final_norm=encoder.final_norm,
    )
    return main.model_copy(update={"layers": groups, "encoder": tower})


def _cross(mixer: Attention) -> Attention:
    return Attention(n_heads=mixer.n_heads, d_head=6, qkv_bias=mixer.qkv_bias, position="none")


def check(spec: ModelSpec, checkpointing: str = "none") -> None:
    """Everything that can be counted, once each, with two layers of each kind."""
    spec = shallow(spec)
    model = countable(spec)
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == parameter_shapes(spec)
    load = Load(batch=BATCH, seq=SEQ, source=3)
    arguments = example(model, BATCH, SEQ, source=3)
    assert count(lambda: model(**arguments)) == forward(spec, load).total

    def step() -> None:
        # In float32 and from the logits alone: a mean of losses that nothing reads would cost nothing either way.
        out = model(**arguments, checkpointing=checkpointing)
        made = sum(each.sum() for each in out.heads.values())
        ((out.last.sum() if out.logits is None else out.logits.sum()) + made).backward()

    assert count(step) == training(spec, load, checkpointing).total
    check_decode(spec, model)


def check_decode(spec: ModelSpec, model: torch.nn.Module) -> None:
    """One more token after a parallel pass, with caches that grow and with caches laid out beforehand."""
    cache = model.new_cache()
    if not cache.layers:
        return
    with torch.no_grad():
        model(**example(model, BATCH, SEQ, source=3), cache=cache)
        assert cache.nbytes == kv_cache(spec, BATCH, SEQ, "bf16", "cache", source=3).total_bytes
        decode = Load(batch=BATCH, seq=1, context=SEQ, decode=True, source=3)
        one = example(model, BATCH, 1, decode=True)
        assert count(lambda: model(**one, cache=cache)) == forward(spec, decode).total
        # Filled to its end: what waits for a compressed entry is not laid out beforehand.
        static = model.new_cache(SEQ + 5)
        model(**example(model, BATCH, SEQ, source=3), cache=static)
        model(**example(model, BATCH, 5, decode=True), cache=static)
        assert static.nbytes == kv_cache(spec, BATCH, SEQ + 5, "bf16", "tokens", source=3).total_bytes


@settings(max_examples=10, deadline=None)
@given(specs(), st.sampled_from(MODES))
@pytest.mark.slow
def test_random_decoders(spec: ModelSpec, checkpointing: str) -> None:
    check(long_enough(spec, SEQ + 5), checkpointing)


@settings(max_examples=5, deadline=None)
@given(encoder_decoders(), st.sampled_from(MODES))
@pytest.mark.slow
def test_random_encoder_decoders(spec: ModelSpec, checkpointing: str) -> None:
    check(long_enough(spec, SEQ + 5), checkpointing)


@pytest.mark.parametrize("name", ["gpt2", "llama-3-8b", "gemma-2-2b", "mixtral-8x7b", "falcon-7b", "gpt-oss-20b"])
def test_presets(name: str) -> None:
    """Whole published models, cut to two layers of each kind."""
    check(calc.load_model(name), "full-early-stop")


def shallow(spec: ModelSpec, count: int = 2) -> ModelSpec:
    """`spec` with `count` layers of each kind, in turns; of what reads keys ahead of a halving there is one."""
    alone = {group.name for group in spec.layers if getattr(group.mixer, "unhalved", False)}
    groups = tuple(group.model_copy(update={"count": 1 if group.name in alone else count}) for group in spec.layers)
    stages = [[g.name for g in groups if spec.stages_of_groups[g.name] == n] for n in range(len(groups))]
    schedule = None if spec.schedule is None else tuple(name for stage in stages for name in count * stage)
    return spec.model_copy(update={"layers": groups, "schedule": schedule})
