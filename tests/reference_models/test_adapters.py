"""Adapters twice: what trains, what every pass and going back cost, and what they compute."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from calc.architectures import from_config  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.kv_cache import kv_cache  # noqa: E402
from calc.quantities.parameters import parameter_shapes, parameters  # noqa: E402
from calc.spec import (  # noqa: E402
    Adapter,
    Attention,
    Bottleneck,
    Buckets,
    HeadExperts,
    Indexer,
    LayerGroup,
    Lora,
    Mamba,
    Mla,
    Mlp,
    ModelSpec,
    Moe,
    Node,
    Norm,
    Prefix,
    Prompt,
    Shaw,
    Shorthand,
)
from calc.spec.load import Load  # noqa: E402
from harness.counter import count  # noqa: E402
from harness.oracles import MODES  # noqa: E402
from reference_models import build  # noqa: E402
from reference_models.adapters import adapt, merge  # noqa: E402
from reference_models.inputs import example  # noqa: E402
from tests.architectures.cases import BASES  # noqa: E402
from tests.architectures.cases_latent import LATENT_CASES  # noqa: E402
from tests.architectures.cases_media import MEDIA  # noqa: E402
from tests.architectures.cases_text import TEXT  # noqa: E402
from tests.reference_models.counted import countable, long_enough  # noqa: E402
from tests.reference_models.test_counts import encoder_decoders, shallow  # noqa: E402
from tests.strategies import specs  # noqa: E402

BATCH, SEQ, N = 2, 7, 3
MATRICES = ("q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "router")
TINY = Shorthand(d_model=16, n_layers=3, n_heads=4, n_kv_heads=2, vocab_size=31, position="rope", max_seq_len=64)


def check(spec: ModelSpec, adapter: Adapter, checkpointing: str, source: int | None = 3) -> None:
    """Trained weights by path, FLOPs of a forward pass and of a training step, to the integer."""
    spec = long_enough(spec, SEQ + N)
    described = spec.model_copy(update={"adapter": adapter})
    model = adapt(countable(spec), adapter)
    own = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assert own == parameter_shapes(described)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trained == sum(parameters(described, trainable=True).values())
    load = Load(batch=BATCH, seq=SEQ, source=source, usual_source=SEQ)
    arguments = example(model, BATCH, SEQ, source=source)
    assert count(lambda: model(**arguments)) == forward(described, load).total

    def step() -> None:
        results = model(**arguments, checkpointing=checkpointing).results
        torch.stack([each.sum() for each in results]).sum().backward()

    assert count(step) == training(described, load, checkpointing).total


LATENT = Mla(n_heads=4, q_rank=8, kv_rank=8, d_nope=4, d_rope=2, d_value=6)
EXPERTS = Moe(n_experts=4, top_k=2, d_expert=8, d_shared=6, shared_gate=True, d_latent=12)
HEADS = Attention(n_heads=4, n_kv_heads=2, d_head=4, experts=HeadExperts(n_experts=3, top_k=2))
FIRST = [(LATENT, Mlp(), name) for name in ("q_a_proj", "q_b_proj", "kv_a_proj", "kv_b_proj")]
FIRST += [(Mamba(d_state=4), None, name) for name in ("in_proj", "x_proj", "dt_proj", "out_proj")]
FIRST += [(None, EXPERTS, name) for name in ("router", "latent_up", "latent_down", "shared_expert_gate", "up_proj")]
FIRST += [(HEADS, None, name) for name in ("router", "q_proj", "o_proj")]


@pytest.mark.parametrize(("mixer", "channel", "target"), FIRST, ids=lambda it: it if isinstance(it, str) else "")
def test_one_matrix_of_other_blocks(mixer: Node | None, channel: Node | None, target: str) -> None:
    group = TINY.expand().layers[0].model_copy(update={"mixer": mixer, "channel": channel})
    check(TINY.expand().model_copy(update={"layers": (group,)}), Lora(rank=2, targets=(target,)), "full-early-stop")


@st.composite
def loras(draw: st.DrawFn, spec: ModelSpec) -> Lora:
    """Any of the matrices that the model has."""
    names = {path.split(".")[-2] for path in parameter_shapes(spec) if "layers." in path}
    there = sorted(names & set(MATRICES))
    return Lora(
        rank=draw(st.integers(1, 5)), targets=tuple(draw(st.lists(st.sampled_from(there), min_size=1, unique=True)))
    )


@settings(max_examples=4, deadline=None)
@given(st.data(), specs(), st.sampled_from(MODES))
def test_lora_on_random_decoders(data: st.DataObject, spec: ModelSpec, checkpointing: str) -> None:
    spec = shallow(spec, data.draw(st.integers(1, 3)))
    check(spec, data.draw(loras(spec)), checkpointing)


@settings(max_examples=4, deadline=None)
@given(st.data(), encoder_decoders(), st.sampled_from(MODES))
@pytest.mark.slow
def test_lora_on_random_encoder_decoders(data: st.DataObject, spec: ModelSpec, checkpointing: str) -> None:
    spec = shallow(spec)
    check(spec, data.draw(loras(spec)), checkpointing)


@settings(max_examples=4, deadline=None)
@given(specs(), st.sampled_from(MODES), st.sampled_from([Bottleneck(width=5), Prompt(length=N)]))
def test_bottlenecks_and_prompts_on_random_decoders(spec: ModelSpec, checkpointing: str, adapter: Adapter) -> None:
    check(shallow(spec), adapter, checkpointing)


@settings(max_examples=4, deadline=None)
@given(specs(), st.sampled_from(MODES))
@pytest.mark.slow
def test_prefixes_on_random_decoders(spec: ModelSpec, checkpointing: str) -> None:
    spec = shallow(spec)
    kept = tuple(group.model_copy(update={"mixer": _plain(group.mixer)}) for group in spec.layers)
    check(spec.model_copy(update={"layers": kept}), Prefix(length=N), checkpointing)


def _plain(mixer: Attention) -> Attention:
    return mixer.model_copy(update={"position": "rope", "shaw": None, "buckets": None, "dynamic_mask": None})


FAMILIES = {
    "vit": ("ViTForImageClassification", MEDIA["vit"][0], ("q_proj", "up_proj")),
    "whisper": ("WhisperForConditionalGeneration", MEDIA["whisper"][0], ("v_proj",)),
    "bert": ("BertForMaskedLM", TEXT["bert"][0], ("k_proj", "down_proj")),
    "seamless_m4t_v2": ("SeamlessM4Tv2ForSpeechToText", TEXT["seamless_m4t_v2"][0], ("q_proj", "up_proj")),
    "t5": ("T5ForConditionalGeneration", TEXT["t5"][0], ("v_proj", "o_proj")),
    "mixtral": ("MixtralForCausalLM", BASES["mixtral"], ("gate_proj", "router")),
    "deepseek_v3": ("DeepseekV3ForCausalLM", LATENT_CASES["deepseek_v3"][0], ("q_b_proj", "kv_b_proj", "down_proj")),
}
"""(class, config, matrices with an update) of a model that sees, hears, reads both ways, writes what another reads,
has experts, or latents."""


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["lora", "bottleneck"])
def test_families(family: str, kind: str) -> None:
    name, config, targets = FAMILIES[family]
    spec = from_config({"model_type": family, "architectures": [name], **config})
    adapter = Bottleneck(width=3) if kind == "bottleneck" else Lora(rank=2, targets=targets)
    check(spec, adapter, "full-early-stop" if kind == "lora" else "none", None)


def borrowers(schedule: str | None, count: int = 2) -> ModelSpec:
    """Layers o and p with keys and values of their own, b and c with those of the last o and p; p and c look 3 back."""
    kinds = tuple(
        LayerGroup(
            name=name,
            count=schedule.count(name) if schedule else count,
            mixer=Attention(n_heads=4, kv="own" if name in "op" else "earlier", window=3 if name in "pc" else None),
            channel=Mlp(d_ff=24),
        )
        for name in dict.fromkeys(schedule or "ob")
    )
    return TINY.expand().model_copy(update={"layers": kinds, "schedule": tuple(schedule) if schedule else None})


def borrowers_of_latents(schedule: str) -> ModelSpec:
    """Layers o and p with latents of their own, b and c with those of the last o and p; p and c turn nothing."""
    shape = {"n_heads": 4, "kv_rank": 6, "d_nope": 4, "d_value": 5, "head_temperature": True}
    indexer = Indexer(n_heads=2, d_head=6, q_norm=Norm(), head_temperature=True)
    kinds = tuple(
        LayerGroup(
            name=name,
            count=schedule.count(name),
            mixer=Mla(
                kv="own" if name in "op" else "earlier",
                position="rope" if name in "ob" else "none",
                d_rope=4 if name in "ob" else None,
                top_k=3,
                indexer=indexer if name in "oc" else None,
                **shape,
            ),
            channel=Mlp(d_ff=24),
        )
        for name in dict.fromkeys(schedule)
    )
    return TINY.expand().model_copy(update={"layers": kinds, "schedule": tuple(schedule)})


@pytest.mark.parametrize("spec", [borrowers_of_latents("oobb"), borrowers_of_latents("opcbobc")])
@pytest.mark.parametrize(
    ("adapter", "checkpointing"),
    [
        (Lora(rank=2, targets=("q_proj",)), "none"),
        (Lora(rank=2, targets=("kv_a_proj",)), "full"),
        (Lora(rank=2, targets=("kv_b_proj",)), "selective"),
        (Bottleneck(width=3), "full-early-stop"),
    ],
)
def test_borrowed_latents(spec: ModelSpec, adapter: Adapter, checkpointing: str) -> None:
    """As keys and values: an earlier layer's pass a gradient where that depends on something trained."""
    check(spec, adapter, checkpointing)


@pytest.mark.parametrize("spec", [borrowers("oobb"), borrowers("opcbobc"), borrowers(None), borrowers(None, 1)])
@pytest.mark.parametrize(
    ("adapter", "checkpointing"),
    [
        (Lora(rank=2, targets=("q_proj",)), "none"),
        (Lora(rank=2, targets=("k_proj",)), "full"),
        (Lora(rank=2, targets=("v_proj",)), "selective"),
        (Bottleneck(width=3), "full-early-stop"),
    ],
)
def test_borrowed_keys_and_values(spec: ModelSpec, adapter: Adapter, checkpointing: str) -> None:
    """They pass a gradient only where the layer that made them depends on something trained: not always the first."""
    check(spec, adapter, checkpointing)


def with_late_experts() -> ModelSpec:
    """Three pairs of layers, behind the second of which is added what experts of the first give."""
    experts = Moe(n_experts=4, n_zero=4, top_k=2, d_expert=12, d_shared=24, correction=True, late=True)
    kinds = tuple(
        LayerGroup(name=name, count=3, mixer=Attention(n_heads=4), channel=channel)
        for name, channel in (("first", experts), ("second", Mlp(d_ff=24)))
    )
    return TINY.expand().model_copy(update={"layers": kinds, "schedule": ("first", "second") * 3})


@pytest.mark.parametrize(
    ("adapter", "checkpointing"),
    [
        (Lora(rank=2, targets=("q_proj",)), "none"),
        (Lora(rank=2, targets=("router",)), "full"),
        (Lora(rank=2, targets=("down_proj",)), "selective"),
        (Bottleneck(width=3), "full-early-stop"),
    ],
)
def test_late_experts(adapter: Adapter, checkpointing: str) -> None:
    """What they give passes a gradient behind the next layer, where it depends on something trained."""
    check(with_late_experts(), adapter, checkpointing)


@pytest.mark.parametrize("checkpointing", MODES)
@pytest.mark.parametrize("target", ["q_proj", "k_proj", "v_proj", "o_proj"])
@pytest.mark.parametrize(
    "position",
    [{"shaw": Shaw(max_distance=2, values=False)}, {"shaw": Shaw(max_distance=2)}, {"buckets": Buckets(n_buckets=8)}],
)
def test_a_core_is_run_again_as_a_whole(position: dict[str, Any], target: str, checkpointing: str) -> None:
    """Where only keys or values pass a gradient, checkpointed attention still computes every product again."""
    layer = LayerGroup(count=1, mixer=Attention(n_heads=4, position="none", **position), channel=Mlp(d_ff=24))
    spec = TINY.model_copy(update={"position": "none"}).expand().model_copy(update={"layers": (layer,)})
    check(spec, Lora(rank=2, targets=(target,)), checkpointing)


@pytest.mark.parametrize("spec", [borrowers("opcbobc"), borrowers_of_latents("opcbobc"), with_late_experts()])
def test_checkpointed_gradients_of_borrowers_are_the_plain_ones(spec: ModelSpec) -> None:
    """Computed again going back, a layer borrows what it borrowed before, not what later layers have lent since."""
    torch.manual_seed(0)
    model, tokens = build(spec, dtype=torch.float64), torch.randint(31, (2, 9))
    found = []
    for mode in MODES:
        model.zero_grad()
        model(tokens, checkpointing=mode).logits.square().sum().backward()
        found.append([weight.grad for weight in model.parameters()])
    for others in found[1:]:
        torch.testing.assert_close(others, found[0])


def test_merged_lora_computes_the_same() -> None:
    torch.manual_seed(0)
    adapter = Lora(rank=3, targets=("q_proj", "v_proj", "down_proj"), alpha=6.0)
    model = adapt(build(TINY.expand(), dtype=torch.float64), adapter)
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            torch.nn.init.normal_(weight, std=0.1)
            assert ".lora_" in name
    tokens = torch.randint(31, (2, 9))
    before = model(tokens).logits
    after = merge(model)(tokens).logits
    torch.testing.assert_close(after, before, rtol=0, atol=1e-12)
    assert {n: tuple(p.shape) for n, p in model.named_parameters()} == parameter_shapes(TINY.expand())


@pytest.mark.parametrize("adapter", [Lora(rank=2), Bottleneck(width=4)])
def test_nothing_changes_before_training(adapter: Adapter) -> None:
    torch.manual_seed(0)
    model, tokens = build(TINY.expand()), torch.randint(31, (2, 9))
    before = model(tokens).logits
    assert torch.equal(adapt(model, adapter)(tokens).logits, before)


@pytest.mark.parametrize("adapter", [Lora(rank=2), Bottleneck(width=4), Prefix(length=N), Prompt(length=N)])
def test_decoding_is_the_same_as_one_pass(adapter: Adapter) -> None:
    """With caches whose bytes, and passes whose FLOPs, are the predicted ones."""
    torch.manual_seed(0)
    spec = TINY.expand()
    described = spec.model_copy(update={"adapter": adapter})
    model = adapt(build(spec, dtype=torch.float64), adapter)
    tokens = torch.randint(31, (2, 8))
    with torch.no_grad():
        whole = model(tokens).logits[:, -1]
        cache = model.new_cache()
        model(tokens[:, :7], cache=cache)
        assert cache.nbytes == 4 * kv_cache(described, 2, 7, "bf16").total_bytes
        last = []
        decode = Load(batch=2, seq=1, context=7, decode=True)
        assert count(lambda: last.append(model(tokens[:, 7:], cache=cache))) == forward(described, decode).total
    torch.testing.assert_close(last[0].logits[:, -1], whole, rtol=0, atol=1e-10)
    model(tokens).logits.sum().backward()
    assert all((weight.grad is not None) == weight.requires_grad for weight in model.parameters())


def test_a_target_that_is_not_there_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="qkv_proj"):
        adapt(build(TINY.expand()), Lora(rank=2, targets=("q_proj", "qkv_proj")))
