"""What autograd keeps of the reference models, against what is written down: to the byte, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import assume, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.saved_tensors import SavedTensors, saved_tensors  # noqa: E402
from calc.spec import (  # noqa: E402
    Attention,
    Convolved,
    Embedding,
    Features,
    Frames,
    LayerGroup,
    Lora,
    Mlp,
    ModelSpec,
    ResNet,
    Rope,
)
from calc.spec.load import Load  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from calc.trace.tape import Saved  # noqa: E402
from reference_models import Model, build  # noqa: E402
from reference_models import saved as probes  # noqa: E402
from reference_models.adapters import adapt  # noqa: E402
from reference_models.blocks.attention_experts import RoutedOutput, RoutedQueries  # noqa: E402
from reference_models.blocks.moe import MixtureOfExperts  # noqa: E402
from reference_models.inputs import example  # noqa: E402
from reference_models.objectives.common import cross_entropy, widens  # noqa: E402
from tests.architectures.cases import BASES  # noqa: E402
from tests.architectures.cases_dense import DENSE  # noqa: E402
from tests.architectures.cases_latent import LATENT_CASES  # noqa: E402
from tests.architectures.cases_media import MEDIA  # noqa: E402
from tests.architectures.cases_recent import RECENT  # noqa: E402
from tests.architectures.cases_recurrent import RECURRENT  # noqa: E402
from tests.architectures.cases_rwkv7 import SMALL  # noqa: E402
from tests.architectures.cases_text import TEXT  # noqa: E402
from tests.architectures.cases_vision import SEEING, inside  # noqa: E402
from tests.reference_models.counted import routed_evenly  # noqa: E402
from tests.reference_models.test_counts import shallow  # noqa: E402
from tests.strategies import alternating, in_bands, in_blocks, late, merged, specs, streamed  # noqa: E402

CASES = (
    *DENSE.items(),
    *TEXT.items(),
    *LATENT_CASES.items(),
    *RECENT.items(),
    *MEDIA.items(),
    *SEEING.items(),
    *RECURRENT.items(),
)
CONFIGS = BASES | {name: cases[0] for name, cases in CASES} | {"rwkv7": SMALL}
CONFIGS["clip_text_model"] = CONFIGS["clip_text_model"] | {"max_position_embeddings": 32}
CONFIGS["clip"] = inside("text_config", CONFIGS["clip"], max_position_embeddings=32)
FAMILIES = sorted(CONFIGS)
SEQ, FRAMES = 24, 500


@dataclass(frozen=True)
class Mode:
    """One way to compute a training step."""

    execution: str = "eager"
    dtype: str = "fp32"
    autocast: bool = False
    dropout: float = 0.0
    selective: bool = False
    batch: int = 2

    def settings(self) -> Settings:
        dtype = "bf16" if self.autocast else self.dtype
        recompute = frozenset({"attention"} if self.selective else ())
        return Settings(
            self.execution,  # type: ignore[arg-type]
            dtype,
            self.autocast,
            dropout=self.dropout,
            device="cpu",
            recompute=recompute,
        )


MODES = (
    Mode(),
    Mode(batch=1),
    Mode("sdpa", "bf16"),
    Mode("sdpa", batch=1, dropout=0.1),
    Mode(autocast=True, dropout=0.1),
    Mode("sdpa", autocast=True),
    Mode(dtype="bf16", dropout=0.1, selective=True, batch=1),
    Mode("sdpa", autocast=True, selective=True),
)


def twin(spec: ModelSpec, mode: Mode) -> Model:
    """The model with its weights in the mode's format."""
    torch.manual_seed(0)
    return routed_evenly(build(spec, dtype=torch.bfloat16 if mode.dtype == "bf16" else torch.float32))


def small(spec: ModelSpec) -> ModelSpec:
    """`spec`, where an encoder sees pictures of any size, with small ones."""
    if spec.encoder is None or not isinstance(spec.encoder.embedding, ResNet):
        return spec
    seen = spec.encoder.embedding.model_copy(update={"height": 64, "width": 96})
    return spec.model_copy(update={"encoder": spec.encoder.model_copy(update={"embedding": seen})})


def measured(model: Model, mode: Mode, checkpointing: str = "none", **inputs: Any) -> probes.Saved:
    """Bytes that autograd keeps of a forward pass to the loss. inputs: of the model, beside or in place of examples."""
    generator = torch.Generator().manual_seed(1)
    arguments = example(model, mode.batch, FRAMES if isinstance(model.whole.embedding, Frames) else SEQ) | inputs
    rows = model.whole.vocab_size if model.whole.head is None else model.whole.head.n_logits or model.whole.vocab_size
    for name in [key for key, each in arguments.items() if each.dtype == torch.long]:
        chosen = torch.randint(rows or 1, arguments[name].shape, generator=generator)
        arguments[name] = chosen.to(arguments[name].device)

    def forward() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=mode.autocast):
            how = "selective" if mode.selective else checkpointing
            out = model(**arguments, kernel=mode.execution, dropout=mode.dropout, checkpointing=how)
            if out.logits is None:
                return out
            targets = arguments["inputs"].roll(-1, 1)
            everywhere = torch.ones_like(targets, dtype=torch.bool)
            return cross_entropy(out.logits, targets, everywhere, widened=widens(model, None)), out

    return probes.saved_tensors(model, forward)


def expected(spec: ModelSpec, mode: Mode) -> SavedTensors:
    source = FRAMES if isinstance(spec.embedding, Frames) else None
    return saved_tensors(spec, Load(batch=mode.batch, seq=SEQ, source=source), mode.settings())


def size(tensors: tuple[Saved, ...]) -> int:
    return sum(each.tensor.bytes for each in tensors)


def kept_inputs(written: SavedTensors) -> int:
    """Bytes that are kept where each layer is checkpointed as a whole: what layers read, and what stands outside."""
    inputs = sum(each.count * read.bytes for each in written.layers.values() for read in (each.input, *each.carried))
    twice = sum(read.bytes for each in written.layers.values() for read in each.outside)
    return size(written.front) + inputs - twice + size(written.end) + size(written.loss)


def idle(model: Model, found: probes.Saved) -> dict[str, int]:
    """Bytes of the cast matrices of each expert that no token has visited, which are not made."""
    routed = MixtureOfExperts, RoutedQueries, RoutedOutput
    layers = {path: each for path, each in model.named_modules() if isinstance(each, routed)}
    experts = {f"{path}.experts.{i}": e for path, moe in layers.items() for i, e in enumerate(moe.experts)}
    idle = {path: expert for path, expert in experts.items() if not found.within(path)}
    return {path: sum(2 * p.numel() for p in expert.parameters() if p.dim() == 2) for path, expert in idle.items()}


def check(spec: ModelSpec, *modes: Mode) -> None:
    """Each mode, with one twin for all of a format."""
    models: dict[str, Model] = {}
    for mode in modes:
        if mode.dtype not in models:
            models[mode.dtype] = twin(spec, mode)
        check_one(models[mode.dtype], spec, mode)


def check_one(model: Model, spec: ModelSpec, mode: Mode) -> None:
    """In total, and of every layer that is not the first of its kind, which keeps what serves them all."""
    written, found = expected(spec, mode), measured(model, mode)
    absent = idle(model, found) if mode.autocast else {}
    assert found.total + sum(absent.values()) == sum(count * each.tensor.bytes for count, each in written.everything())
    for stack, path in ((spec, ""), *([(spec.encoder, "encoder.")] if spec.encoder is not None else [])):
        order = stack.schedule or tuple(group.name for group in stack.layers for _ in range(group.count))
        seen: set[str] = set()
        for i, name in enumerate(order):
            if name in seen and not written.layers[f"{path}{name}"].group.shared:
                casts = sum(n for expert, n in absent.items() if expert.startswith(f"{path}layers.{i}."))
                assert found.within(f"{path}layers.{i}") + casts == size(written.layers[f"{path}{name}"].saved)
            seen.add(name)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "modes", [MODES[5:6], pytest.param((*MODES[:5], *MODES[6:]), marks=pytest.mark.slow)], ids=["one", "others"]
)
def test_every_family(name: str, modes: tuple[Mode, ...]) -> None:
    spec = small(from_config({"model_type": name, **CONFIGS[name]}))
    check(spec, *modes)


@pytest.mark.parametrize(
    "name",
    ["gpt2", "llama", "gemma3_text", "mixtral", "deepseek_v3", "deepseek_v4", "longcat_flash", "bert", "zaya"],
)
@pytest.mark.parametrize("mode", [Mode(), Mode("sdpa", "bf16", dropout=0.1), Mode(autocast=True)], ids=str)
def test_full_checkpointing_keeps_each_layers_input(name: str, mode: Mode) -> None:
    """What layers share is made inside one of them, and stays without autograd's knowing."""
    spec = from_config({"model_type": name, **CONFIGS[name]})
    assert measured(twin(spec, mode), mode, "full").total == kept_inputs(expected(spec, mode))


@settings(max_examples=40, deadline=None)
@given(specs() | in_blocks() | alternating() | in_bands() | merged() | late() | streamed(), st.sampled_from(MODES))
def test_random_models(spec: ModelSpec, mode: Mode) -> None:
    spec = shallow(spec)
    assert isinstance(spec.embedding, Embedding)
    # Narrow embeddings come out of a product, under autocast in bf16, and only the layers then widen the stream.
    assume(not (mode.autocast and spec.embedding.d_embed is not None))
    if spec.embedding.n_positions is not None:
        spec = spec.model_copy(update={"embedding": spec.embedding.model_copy(update={"n_positions": SEQ})})
    try:
        expected(spec, mode)
    except Refused:
        assume(False)
    check(spec, mode)


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("sizes", [(1, 1, 2), (2, 1, 8), (4, 2, 6)], ids=str)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_convolved_heads_of_which_all_turns(sizes: tuple[int, int, int], joined: bool, mode: Mode) -> None:
    """What convolutions give lies channel by channel, and PyTorch's kernels are given it token by token."""
    n_heads, n_kv_heads, d_head = sizes
    rope, convolved = Rope(joined=joined), Convolved(d_conv=1, d_head_conv=2)
    mixer = Attention(n_heads=n_heads, n_kv_heads=n_kv_heads, d_head=d_head, convolved=convolved, rope=rope)
    check(ModelSpec(d_model=24, vocab_size=5, layers=(LayerGroup(count=2, mixer=mixer, channel=Mlp()),)), mode)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_zaya_of_whose_heads_all_turns(mode: Mode) -> None:
    whole = {"rope_type": "default", "rope_theta": 71.0, "partial_rotary_factor": 1.0}
    config = CONFIGS["zaya"] | {"rope_parameters": {"hybrid": whole, "hybrid_sliding": whole}}
    spec = from_config({"model_type": "zaya", **config})
    assert all(mixer.rope.joined and mixer.rope.fraction == 1 for mixer in spec.attentions)
    check(spec, mode)


@pytest.mark.parametrize(("name", "key"), [("mixtral", "router_jitter_noise"), ("phimoe", "input_jitter_noise")])
@pytest.mark.parametrize("mode", [Mode(), Mode("sdpa", autocast=True)], ids=str)
def test_experts_whose_tokens_are_shaken(name: str, key: str, mode: Mode) -> None:
    check(from_config({"model_type": name, **CONFIGS[name], key: 0.1}), mode)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_norm_of_its_own_for_each_head(mode: Mode) -> None:
    check(from_config({"model_type": "stablelm", **CONFIGS["stablelm"], "qk_layernorm": True}), mode)


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_the_meta_device_tells_storages_apart(name: str) -> None:
    spec = from_config({"model_type": name, **CONFIGS[name]})
    model = twin(spec, Mode())
    assert measured(model.to("meta"), Mode()).total == measured(twin(spec, Mode()), Mode()).total


@pytest.mark.parametrize(("name", "targets"), [("llama", ("q_proj", "v_proj")), ("gpt2", ("qkv_proj", "down_proj"))])
@pytest.mark.parametrize("mode", [Mode(), Mode("sdpa", "bf16"), Mode("sdpa", autocast=True)], ids=str)
def test_low_rank_updates_of_frozen_weights(name: str, targets: tuple[str, ...], mode: Mode) -> None:
    """The first layer, whose input needs no gradient, and all others."""
    spec = from_config({"model_type": name, **CONFIGS[name]})
    found = measured(adapt(twin(spec, mode), Lora(rank=2, targets=targets)), mode)
    adapted = spec.model_copy(update={"adapter": Lora(rank=2, targets=targets)})
    written = saved_tensors(adapted, Load(batch=mode.batch, seq=SEQ), mode.settings())
    first, others = written.layers.values()
    assert {found.within(f"layers.{i}") for i in range(1, spec.n_layers)} == {size(others.saved)}
    assert found.within("layers.0") == size(first.saved) + size(written.common)
    assert found.total == sum(count * each.tensor.bytes for count, each in written.everything())


@pytest.mark.parametrize("name", ["gemma3_text", "mixtral", "bart", "whisper", "gpt_oss", "swin"])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_low_rank_updates_of_several_kinds_of_layers(name: str, mode: Mode) -> None:
    spec = from_config({"model_type": name, **CONFIGS[name]})
    found = measured(adapt(twin(spec, mode), Lora(rank=2, targets=("q_proj", "v_proj"))), mode)
    adapted = spec.model_copy(update={"adapter": Lora(rank=2, targets=("q_proj", "v_proj"))})
    written = saved_tensors(adapted, Load(batch=mode.batch, seq=SEQ), mode.settings())
    assert found.total == sum(count * each.tensor.bytes for count, each in written.everything())


@pytest.mark.parametrize("targets", [("v_proj_delayed",), ("q_proj", "o_proj"), ("down", "down_proj")], ids=str)
@pytest.mark.parametrize("mode", MODES[:4], ids=str)
def test_low_rank_updates_beside_routers_that_carry_on(targets: tuple[str, ...], mode: Mode) -> None:
    """What a router leaves for the next layer's needs a gradient from the first update on, as the stream does."""
    spec = from_config({"model_type": "zaya", **CONFIGS["zaya"]})
    found = measured(adapt(twin(spec, mode), Lora(rank=2, targets=targets)), mode)
    written = expected(spec.model_copy(update={"adapter": Lora(rank=2, targets=targets)}), mode)
    assert found.total == sum(count * each.tensor.bytes for count, each in written.everything())


@pytest.mark.parametrize("config", SEEING["gemma4_text"][1:], ids=str)
@pytest.mark.parametrize("mode", MODES[:6:2], ids=str)
def test_borrowed_keys_keys_as_values_and_a_dense_block_beside_experts(config: dict[str, Any], mode: Mode) -> None:
    check(from_config({"model_type": "gemma4_text", **config}), mode)


@pytest.mark.parametrize("config", SEEING["mistral_large4"][1:], ids=range(1, len(SEEING["mistral_large4"])))
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_borrowed_latents_and_queries_that_grow_as_each_head_has_learned(config: dict[str, Any], mode: Mode) -> None:
    check(from_config({"model_type": "mistral_large4", **config}), mode)


@pytest.mark.parametrize("config", RECENT["longcat_flash"][1:3], ids=["one in three", "one in two"])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_experts_that_give_back_what_they_read(config: dict[str, Any], mode: Mode) -> None:
    check(from_config({"model_type": "longcat_flash", **config}), mode)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_rows_of_a_table(mode: Mode) -> None:
    layer = LayerGroup(count=2, mixer=Attention(n_heads=4, causal=False, position="none"), channel=Mlp())
    front = Features(n_numbers=5, categories=(3, 4), n_special=1)
    check(ModelSpec(d_model=16, embedding=front, layers=(layer,), head=None), mode)


def test_half_of_a_batch_is_half_of_what_is_kept_for_it() -> None:
    """Beside tables of positions and what serves all sequences, bytes grow with the batch alone."""
    spec = from_config({"model_type": "llama", **CONFIGS["llama"]})
    two, four = (measured(twin(spec, Mode()), Mode(batch=n)).within("layers.1") for n in (2, 4))
    assert four == 2 * two


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_peak_of_a_gpu_is_refused_without_one() -> None:
    with pytest.raises(RuntimeError, match="expected a CUDA GPU"):
        probes.peak_allocation(lambda: None)
