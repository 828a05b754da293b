"""The class that a config names: every head of every decoder against transformers' own class, and published totals."""

from __future__ import annotations

from typing import Any

import pytest

transformers = pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.architectures.classes import CLASSES, TEXT_OF  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward  # noqa: E402
from calc.quantities.parameters import parameter_shapes, parameters  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from tests import reference  # noqa: E402
from tests.architectures import their_models  # noqa: E402
from tests.architectures.varied import CONFIGS  # noqa: E402

# transformers runs all of Llama 4's experts on all tokens, and DBRX's by a loop over data that nothing here has.
NOT_RUN = ("llama4", "dbrx", "jetmoe", "gemma4")
LABELS = 5


def _cases() -> list[Any]:
    there = set(dir(transformers))  # asking for a class itself would import the modules of them all
    return [
        pytest.param({"model_type": family, **CONFIGS[family][0], "architectures": [name]}, id=f"{family}-{name}")
        for family, classes in CLASSES.items()
        if their_models.known(family) and family in CONFIGS
        for name in classes
        if name in there
    ]


@pytest.mark.parametrize("raw", _cases())
def test_same_as_the_class_itself(raw: dict[str, Any]) -> None:
    raw = raw | {"num_labels": LABELS, "token_classification_bias": False}
    theirs, ours = their_models.build(raw), from_config(raw)
    assert sum(parameters(ours).values()) == their_models.total(theirs)
    # Whatever a class has beside the model that it is named after is its head.
    outer = {name.split(".")[-1]: tuple(p.shape) for name, p in theirs.named_parameters() if name.count(".") == 1}
    kinds = ("classifier.dense.", "span.dense.")
    head = {path: shape for path, shape in parameter_shapes(ours).items() if path.startswith(kinds)}
    if head:
        assert {path.split(".")[-1]: tuple(shape) for path, shape in head.items()} == outer
    # Other tests run language models, and another classifier's products differ in their width alone.
    if raw["architectures"][0].endswith("ForSequenceClassification") and not raw["model_type"].startswith(NOT_RUN):
        flops, _ = their_models.run(theirs)
        assert forward(ours, Load(batch=their_models.BATCH, seq=their_models.SEQ)).total == flops


@pytest.mark.parametrize(
    ("name", "architecture", "labels", "total"),
    [
        ("Llama-3.1-8B", "LlamaForSequenceClassification", 1, 7_504_928_768),
        ("Llama-3.1-8B", "LlamaModel", 1, 7_504_924_672),
        ("Mistral-7B-v0.1", "MistralModel", 2, 7_110_660_096),
        ("Qwen2-72B", "Qwen2ForSequenceClassification", 1, 71_460_503_552),
    ],
)
def test_real_sizes(name: str, architecture: str, labels: int, total: int) -> None:
    raw = reference.config(name) | {"architectures": [architecture]}
    raw |= {"id2label": {str(i): f"LABEL_{i}" for i in range(labels)}}
    assert sum(parameters(from_config(raw)).values()) == total


LLAMA = {"model_type": "llama", **CONFIGS["llama"][0]}


@pytest.mark.parametrize("named", [None, []])
def test_no_class_is_the_usual_one_and_said(named: Any) -> None:
    spec = from_config(LLAMA | {"architectures": named})
    assert "architectures names no class: counted as LlamaForCausalLM" in spec.notes
    assert parameters(spec) == parameters(from_config(LLAMA | {"architectures": ["LlamaForCausalLM"]}))


@pytest.mark.parametrize(
    "named", ["LlamaForCausalLM", 7, ["FooBar"], ["BertModel"], ["LlamaModel", "LlamaForCausalLM"], [[]], [None]]
)
def test_unknown_classes_are_refused_by_name(named: Any) -> None:
    with pytest.raises(Refused) as caught:
        from_config(LLAMA | {"architectures": named})
    assert caught.value.field == "architectures"
    if isinstance(named, list) and isinstance(named[0], str) and len(named) == 1:
        assert caught.value.found == named[0]


def test_older_spellings_of_a_name() -> None:
    for model_type, name in (("llama", "LLaMAForCausalLM"), ("mpt", "MPTForCausalLM"), ("olmo", "OLMoForCausalLM")):
        assert from_config({"model_type": model_type, **CONFIGS[model_type][0], "architectures": [name]}).head


def test_labels() -> None:
    raw = LLAMA | {"architectures": ["LlamaForSequenceClassification"]}
    named = from_config(raw | {"id2label": {"0": "bad", "1": "so-so", "2": "good"}})
    assert named.heads[-1].d_out == 3
    assert from_config(raw).heads[-1].d_out == 2
    with pytest.raises(Refused, match="num_labels"):
        from_config(raw | {"id2label": {"0": "bad", "1": "good"}, "num_labels": 3})


@pytest.mark.parametrize("family", [family for family in TEXT_OF if "vision_config" in CONFIGS.get(family, [{}])[0]])
def test_a_class_of_the_language_model_reads_it_alone(family: str) -> None:
    """transformers takes `text_config` of a config with pictures for such a class."""
    raw = {"model_type": family, **CONFIGS[family][0], "architectures": [next(iter(CLASSES[TEXT_OF[family]]))]}
    ours = from_config(raw)
    assert ours.vision is None
    assert sum(parameters(ours).values()) == their_models.total(their_models.build(raw))
    raw.pop("vision_config")
    assert parameters(from_config(raw)) == parameters(ours)


def test_copies_that_are_left_out_are_told() -> None:
    """GPT-2's scores in float32, which only attention that is written out makes."""
    sizes = {"vocab_size": 64, "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 16}
    configs = ({"model_type": "gpt2", **sizes, "reorder_and_upcast_attn": on} for on in (False, True))
    plain, upcast = map(from_config, configs)
    assert set(upcast.notes) - set(plain.notes) == {
        "reorder_and_upcast_attn: fp32 copies that eager attention keeps of queries, keys and scores are left out"
    }
