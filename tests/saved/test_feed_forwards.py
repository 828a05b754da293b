"""Feed-forwards that bring what their second matrix reads to its weight's format: under autocast to fp32, and back.

T5 and its kin, NLLB-MoE and SeamlessM4T of transformers 5.23 do. Where the activation keeps its result, as ReLU does,
autograd keeps that a second time; where it keeps what it reads, as GELU does, it keeps as much as without.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors as what_is_saved  # noqa: E402
from calc.spec import Lora, ModelSpec  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from reference_models import saved as probes  # noqa: E402
from reference_models.adapters import adapt  # noqa: E402
from reference_models.blocks.low_rank import LoraLinear  # noqa: E402
from tests.architectures.cases_text import TEXT  # noqa: E402
from tests.architectures.test_text import BATCH, SEQ, SOURCE, build, inputs  # noqa: E402
from tests.saved.test_readings import total  # noqa: E402
from tests.saved.test_twins import SEQ as TWIN_SEQ  # noqa: E402
from tests.saved.test_twins import Mode, expected, measured, twin  # noqa: E402

FP32, AUTOCAST = Settings("eager", "fp32", device="cpu"), Settings("eager", autocast=True, device="cpu")
SDPA = Settings("sdpa", autocast=True, device="cpu")
LOAD = Load(batch=BATCH, seq=SEQ, source=SOURCE, experts="loop")
T5_KIN, OTHERS = ("t5", "mt5", "umt5", "longt5"), ("seamless_m4t", "seamless_m4t_v2")
WITH_EXPERTS = ("switch_transformers", "nllb-moe")
EAGER_ALONE = ("longt5", *WITH_EXPERTS)
"""transformers runs no other attention of these."""
CASES = [(name, act) for name in (*T5_KIN, *OTHERS, *WITH_EXPERTS) for act in ("relu", "gelu")]
CASES += [(name, "gated-gelu") for name in T5_KIN]
ACTIVATION = dict.fromkeys(T5_KIN, "feed_forward_proj") | {"switch_transformers": "dense_act_fn"}
FEED_FORWARDS = ("DenseActDense", "DenseGatedActDense", "FeedForwardNetwork")
"""How the names of their classes end; experts' are the same."""


def raw(family: str, act: str) -> dict[str, Any]:
    """A small model whose activation is `act`."""
    return TEXT[family][0] | {ACTIVATION.get(family, "activation_function"): act, "architectures": [TEXT[family][1][0]]}


def of(family: str, act: str) -> ModelSpec:
    return from_config({"model_type": family, **raw(family, act)})


def kept(family: str, act: str, how: Settings) -> tuple[Any, probes.Saved]:
    """transformers' own model, and what autograd keeps of a pass to its loss."""
    config = raw(family, act)
    model = build(family, config.pop("architectures")[0], config)
    model.set_attn_implementation(how.execution)
    given = inputs(model)

    def forward() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=how.autocast):
            return model(**given, labels=given["decoder_input_ids"].clone(), use_cache=False)

    return model, probes.saved_tensors(model, forward)


def within(model: Any, found: probes.Saved, how: Settings) -> int:
    """Bytes of the feed-forwards, as if every expert ran: autocast copies the matrices of those alone that do."""
    bytes_of = 0
    for path, module in model.named_modules():
        if not type(module).__name__.endswith(FEED_FORWARDS):
            continue
        idle = found.within(path) == 0 and how.autocast
        bytes_of += sum(2 * p.numel() for p in module.parameters() if p.dim() == 2) if idle else found.within(path)
    return bytes_of


def counted(spec: ModelSpec, how: Settings) -> int:
    """Bytes that are written down for the feed-forwards."""
    everything = what_is_saved(spec, LOAD, how).everything()
    inside = [(n, each) for n, each in everything if ".mlp." in each.op or ".experts.{}." in each.op]
    return int(sum(n * each.tensor.bytes for n, each in inside))


WAYS = [
    pytest.param(family, act, how, id=f"{family}-{act}-{name}")
    for family, act in CASES
    for name, how in (("fp32", FP32), ("autocast", AUTOCAST), ("sdpa autocast", SDPA))
    if how.execution != "sdpa" or family not in EAGER_ALONE  # which transformers has eager attention alone of
]


@pytest.mark.parametrize(("family", "act", "how"), WAYS)
def test_they_keep_what_transformers_keeps(family: str, act: str, how: Settings) -> None:
    """To the byte; and so does the whole model, but for NLLB-MoE's masks of experts and for the bias that T5's sdpa
    attention copies on a CPU."""
    spec = of(family, act)
    model, found = kept(family, act, how)
    assert counted(spec, how) == within(model, found, how)
    if family not in WITH_EXPERTS and (how.execution == "eager" or family in OTHERS):
        assert total(spec, LOAD, how) == found.total


@pytest.mark.parametrize("noise", [0.01, 0.0, -1.0])
def test_switch_keeps_what_it_shakes_tokens_with(noise: float) -> None:
    """To the byte, but for shares of visits, which the loss that balances experts reads: transformers has it apart."""
    config = raw("switch_transformers", "relu") | {"router_jitter_noise": noise}
    spec = from_config({"model_type": "switch_transformers", **config})
    name = config.pop("architectures")[0]
    model = build("switch_transformers", name, config)
    given = inputs(model)
    labels = given["decoder_input_ids"].clone()
    found = probes.saved_tensors(model, lambda: model(**given, labels=labels, use_cache=False))
    kept = list(what_is_saved(spec, LOAD, FP32).everything())
    shares = sum(n * each.tensor.bytes for n, each in kept if each.role == "share of visits of each expert")
    assert sum(n * each.tensor.bytes for n, each in kept) - shares == found.total
    assert any(each.role == "noise" for _, each in kept) == (noise > 0)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("family", "apart"),
    [
        ("switch_transformers", ("share of visits of each expert",)),
        # Its experts, mended, take tokens and bring them back by one list of numbers.
        ("nllb-moe", ("share of visits of each expert", "places of visits")),
    ],
)
def test_routers_keep_what_they_read_in_float32(family: str, apart: tuple[str, ...], dtype: str) -> None:
    """Whatever the model is in; NLLB-MoE's keep masks of the chosen. To the byte, but for what is said."""
    config, how = raw(family, "relu"), Settings("eager", dtype, device="cpu")
    spec = of(family, "relu")
    model = build(family, config.pop("architectures")[0], config)
    model = model.to(torch.bfloat16) if dtype == "bf16" else model
    given = inputs(model)
    labels = given["decoder_input_ids"].clone()
    found = probes.still_kept(model, lambda: model(**given, labels=labels, use_cache=False))
    assert found == sum(
        n * each.tensor.bytes for n, each in what_is_saved(spec, LOAD, how).everything() if each.role not in apart
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("family", WITH_EXPERTS)
def test_routers_in_other_formats_are_refused(family: str, dtype: str) -> None:
    with pytest.raises(Refused, match="router_dtype"):
        from_config({"model_type": family, **raw(family, "relu"), "router_dtype": dtype})


@pytest.mark.parametrize("targets", [("down_proj",), ("up_proj", "down_proj"), ("q_proj",)])
@pytest.mark.parametrize("mode", [Mode(), Mode(autocast=True), Mode("sdpa", autocast=True, dropout=0.1)], ids=str)
def test_low_rank_updates_read_the_copy_too(targets: tuple[str, ...], mode: Mode) -> None:
    spec = of("t5", "relu")
    found = measured(adapt(twin(spec, mode), Lora(rank=2, targets=targets)), mode)
    written = expected(spec.model_copy(update={"adapter": Lora(rank=2, targets=targets)}), mode)
    assert found.total == sum(count * each.tensor.bytes for count, each in written.everything())


def test_beside_frozen_weights_in_bf16_nothing_is_brought_to_fp32() -> None:
    """What is added to the product reads the activation's own result; of such weights autocast makes no copies."""
    spec, mode = of("t5", "relu"), Mode(autocast=True)
    lora = Lora(rank=2, targets=("down_proj",))
    model = adapt(twin(spec, mode), lora)
    for module in model.modules():
        if isinstance(module, LoraLinear):
            module.weight.data = module.weight.data.to(torch.bfloat16)
    load = Load(batch=mode.batch, seq=TWIN_SEQ)
    how = replace(mode.settings(), frozen_apart=True)
    written = list(what_is_saved(spec.model_copy(update={"adapter": lora}), load, how).everything())
    copies = [(n, each) for n, each in written if each.op.endswith(".down_proj") and each.role == "cast weight"]
    assert copies
    found = measured(model, mode).total
    assert found == sum(n * each.tensor.bytes for n, each in written if (n, each) not in copies)
