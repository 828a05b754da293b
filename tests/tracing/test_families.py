"""What is traced of transformers' own classes, against the families that are described by hand and against PyTorch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import calc  # noqa: E402
from calc.architectures import traceable  # noqa: E402
from calc.blocks.build import vectors_read  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors as what_is_saved  # noqa: E402
from calc.spec import Moe  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.spec.traced import Traced  # noqa: E402
from calc.tracing.building import class_of  # noqa: E402
from calc.tracing.model import from_transformers  # noqa: E402
from reference_models.saved import saved_tensors  # noqa: E402
from tests.saved.test_transformers import FAMILIES as SMALL  # noqa: E402
from tests.saved.test_transformers import INDICES, MODES, TOKENS  # noqa: E402

BATCH, SEQ = 2, 64
LOOPED = ("falcon_mamba", "jamba", "mamba", "recurrent_gemma", "rwkv")
"""Whose classes take one token after the other, each with operations of its own: fewer of them say as much."""
DAILY = ("llama", "gpt2", "bert", "t5", "mixtral", "mamba")
FAMILIES = {
    name: {key: 16 if (value, key[-17:]) == (14, "intermediate_size") else value for key, value in config.items()}
    for name, config in SMALL.items()
}
"""With experts that PyTorch multiplies in one product: of 16 bytes a row, or a multiple."""
REFUSED = {
    "dbrx": "nonzero",
    "jetmoe": "_local_scalar_dense",
    "longcat_flash": "nonzero",
    "longformer": "_local_scalar_dense",
    "qwen4_exp_text": "nonzero",
    "step3p5": "nonzero",
}
"""Family -> a word of why it is refused: its class asks which experts the tokens chose, whether any token sees all
others, or which tokens each one sees, a number."""
KNOWN = sorted(name for name in FAMILIES if name in traceable() and name not in REFUSED)
NAMES = [pytest.param(n, marks=() if n in DAILY else pytest.mark.slow) for n in KNOWN]
ATTENTION = {"eager fp32": "eager", "eager bf16": "eager", "sdpa bf16": "sdpa", "sdpa autocast": "sdpa"}
UNLIKE = {"llama4_text": "every expert multiplies every token, and most of that is multiplied by 0"}
"""Family -> how what PyTorch runs differs from the description by hand, in FLOPs."""


MORE = {
    ("biogpt", "sdpa bf16"): 65536,
    ("biogpt", "sdpa autocast"): 65536,
    ("big_bird", "sdpa autocast"): 3 * 4 * BATCH * 4 * SEQ**2,
    ("persimmon", "sdpa autocast"): -32768,
}
"""Bytes that are said beyond those kept: the classes of BioGPT and BigBird look whether their own mask hides anything,
which they cannot see without numbers (with a hidden token BigBird's three layers keep their weights in fp32 too);
Persimmon's tables of angles are in fp32 under autocast, and in bf16 here."""


def raw_config(name: str) -> dict[str, Any]:
    """With special tokens that small vocabularies have."""
    return {"model_type": name, **TOKENS, **FAMILIES[name]}


def length(name: str) -> int:
    """Tokens of a sequence."""
    return SEQ // 4 if name in LOOPED else SEQ


def traced(name: str) -> Traced:
    return from_transformers(raw_config(name), name)


@pytest.fixture(scope="module", params=NAMES)
def family(request: pytest.FixtureRequest) -> tuple[str, Traced]:
    """A family and its class as it is traced, once for all tests, which pytest then runs family by family."""
    return request.param, traced(request.param)


def experts(name: str) -> bool:
    return any(isinstance(group.channel, Moe) for group in calc.from_config(raw_config(name)).layers)


def kept(name: str, mode: str) -> int:
    """Bytes that autograd keeps of transformers' own model, with numbers, from its tokens to the loss."""
    settings = MODES[mode]
    config = transformers.AutoConfig.for_model(name, **(TOKENS | FAMILIES[name]))
    for key, value in vars(config).copy().items():
        if "drop" in key and isinstance(value, float):
            setattr(config, key, 0.0)
    how: dict[str, Any] = {"experts_implementation": "grouped_mm"} if experts(name) and name not in UNLIKE else {}
    make = class_of(config)._from_config
    try:
        model = make(config, attn_implementation=settings.execution, **how)
    except ValueError:
        model = make(config, attn_implementation="eager", **how)
    model = model.to(torch.float32 if settings.stream == "fp32" else torch.bfloat16).train()
    tokens = torch.randint(3, 90, (BATCH, length(name)))

    def forward() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=settings.autocast):
            return model(tokens, labels=tokens, **({} if name == "bert" else {"use_cache": False}))

    return saved_tensors(model, forward).total


def test_parameters_and_flops_are_those_of_the_description(family: tuple[str, Traced]) -> None:
    name, model = family
    by_hand = calc.from_config(raw_config(name))
    for quantity in ("params", "params.active", "flops.forward", "flops.training"):
        run = calc.Run(batch=BATCH, seq=length(name))
        ours, theirs = calc.estimate(model, quantity, run).value, calc.estimate(by_hand, quantity, run).value
        assert ours > theirs if name in UNLIKE and quantity.startswith("flops") else ours == theirs


@pytest.mark.parametrize("name", REFUSED)
def test_what_asks_for_numbers_is_refused(name: str) -> None:
    with pytest.raises(Refused, match=REFUSED[name]):
        traced(name)


def test_paths_and_shapes_are_those_of_the_module(family: tuple[str, Traced]) -> None:
    name, model = family
    with torch.device("meta"):
        config = transformers.AutoConfig.for_model(name, **(TOKENS | FAMILIES[name]))
        module = class_of(config)._from_config(config)
    theirs = {path: tuple(p.shape) for path, p in module.named_parameters()}
    ours = calc.parameter_shapes(model)
    # Matrices of all experts in one tensor are told one by one.
    one = {path: shape for path, shape in ours.items() if path in theirs}
    assert one == {path: shape for path, shape in theirs.items() if path in one}
    for path in theirs.keys() - one.keys():
        each = [ours[f"{path}.{i}"] for i in range(theirs[path][0])]
        assert set(each) == {theirs[path][1:]}
    assert sum(torch.Size(shape).numel() for shape in ours.values()) == sum(p.numel() for p in module.parameters())


def test_autograd_keeps_as_many_bytes_as_of_the_model_with_numbers(family: tuple[str, Traced]) -> None:
    """But for the targets, which the measured pass takes to be the inputs themselves."""
    name, model = family
    for mode in modes(name):
        check_bytes(name, model, mode)


def modes(name: str) -> Iterable[str]:
    """All of a few families and of those whose modes differ; of the others one, in turn."""
    if name in DAILY or any(name == each for each, _ in MORE):
        return MODES
    return (list(MODES)[KNOWN.index(name) % len(MODES)],)


def check_bytes(name: str, model: Traced, mode: str) -> None:
    seq = length(name)
    load = Load(batch=BATCH, seq=seq, usual_source=seq)  # that of counting, whose pass is seen once for both
    found = what_is_saved(model, load, MODES[mode]).everything()
    ours = int(sum(times * each.tensor.bytes for times, each in found))
    assert abs(ours - kept(name, mode) - MORE.get((name, mode), 0)) <= INDICES


@pytest.mark.parametrize(("model_type", "unit"), [("vit", "inputs"), ("llama", "tokens"), ("patchtst", "inputs")])
def test_what_is_not_as_long_as_asked_counts_as_one(model_type: str, unit: str) -> None:
    """Nobody knows how many vectors a traced picture becomes, so that no length is told for it."""
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = {"vocab_size": 64, **small} if model_type == "llama" else small
    series = {"d_model": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 32}
    config = series if model_type == "patchtst" else config
    model = from_transformers({"model_type": model_type, **config}, model_type)
    assert model.unit == unit
    assert vectors_read(model, 2048) == (2048 if unit == "tokens" else 1)
    flops = [calc.estimate(model, "flops.forward", seq=seq).value for seq in (16, 32)]
    assert (flops[0] == flops[1]) is (unit == "inputs")
