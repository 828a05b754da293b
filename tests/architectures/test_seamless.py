"""SeamlessM4T's classes that speak: what is weighed, what a pass runs and trains, against transformers' own."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.kv_cache import kv_cache  # noqa: E402
from calc.quantities.parameters import parameter_shapes, parameters  # noqa: E402
from calc.spec import ModelSpec  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.time import predict  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from harness.counter import count  # noqa: E402
from reference_models import build as twin  # noqa: E402
from reference_models.inputs import example  # noqa: E402
from reference_models.saved import saved_tensors  # noqa: E402
from tests.architectures.cases_text import TEXT  # noqa: E402
from tests.architectures.renaming import compare  # noqa: E402
from tests.architectures.test_text import BATCH, SEQ, SOURCE, build, inputs, loss  # noqa: E402
from tests.reference_models.test_counts import check  # noqa: E402
from tests.saved.test_readings import total  # noqa: E402

SMALL = {
    "t2u_vocab_size": 23,
    "char_vocab_size": 19,
    "t2u_encoder_layers": 2,
    "t2u_decoder_layers": 3,
    "t2u_encoder_ffn_dim": 44,
    "t2u_decoder_ffn_dim": 36,
    "t2u_encoder_attention_heads": 4,
    "t2u_decoder_attention_heads": 8,
    "t2u_variance_predictor_embed_dim": 32,
    "t2u_variance_predictor_hidden_dim": 10,
    "upsample_initial_channel": 24,
    "upsample_rates": [3, 2],
    "upsample_kernel_sizes": [5, 4],
    "resblock_kernel_sizes": [3, 5],
    "resblock_dilation_sizes": [[1, 3], [1, 2, 3]],
    "unit_hifi_gan_vocab_size": 21,
    "unit_embed_dim": 14,
    "spkr_embed_dim": 6,
    "lang_embed_dim": 5,
    "vocoder_num_langs": 4,
    "vocoder_num_spkrs": 7,
}
CONFIG = TEXT["seamless_m4t_v2"][0] | SMALL
OTHER = {"upsample_rates": [2], "upsample_kernel_sizes": [2], "variance_predictor_kernel_size": 5}
OTHER |= {"t2u_variance_predictor_kernel_size": 1, "resblock_kernel_sizes": [3], "resblock_dilation_sizes": [[1, 2]]}
READS_AS = {"Model": "TextToText", "ForTextToSpeech": "TextToText", "ForSpeechToSpeech": "SpeechToText"}
"""How the names of classes end, and what their forward does."""
PREFIX = {"seamless_m4t": "SeamlessM4T", "seamless_m4t_v2": "SeamlessM4Tv2"}
each_class = pytest.mark.parametrize(("family", "end"), [(family, end) for family in PREFIX for end in READS_AS])


def of(family: str, end: str, config: dict[str, Any] = CONFIG) -> ModelSpec:
    return from_config({"model_type": family, "architectures": [f"{PREFIX[family]}{end}"], **of_family(family, config)})


def of_family(family: str, config: dict[str, Any]) -> dict[str, Any]:
    """The first version keeps the sinusoids of all places that it has any for."""
    return config | ({"max_source_positions": SOURCE} if family == "seamless_m4t" else {})


def theirs_of(family: str, end: str, config: dict[str, Any] = CONFIG) -> Any:
    return build(family, f"{PREFIX[family]}{end}", of_family(family, config))


def given(end: str, model: Any) -> dict[str, Any]:
    """What its forward reads. The class with both encoders takes text where nothing is said."""
    model.main_input_name = "input_features" if end == "ForSpeechToSpeech" else "input_ids"
    return inputs(model)


@each_class
@pytest.mark.parametrize("change", [{}, OTHER, {"speech_encoder_layers": 3, "num_adapter_layers": 2}])
def test_every_weight(family: str, end: str, change: dict[str, Any]) -> None:
    model = theirs_of(family, end, CONFIG | change)
    theirs = {path: parameter.numel() for path, parameter in model.named_parameters()}
    shapes = parameter_shapes(of(family, end, CONFIG | change))
    ours = {path: prod(shape) for path, shape in shapes.items()}
    if end == "Model":
        # Its encoder of speech has a name of its own, beside that of text.
        beside = {path.removeprefix("speech_"): n for path, n in ours.items() if path.startswith("speech_encoder.")}
        heard = {path: n for path, n in theirs.items() if path.startswith("speech_encoder.")}
        assert compare(heard, beside, family) == {}
        theirs = {path: n for path, n in theirs.items() if path not in heard}
        ours = {path: n for path, n in ours.items() if not path.startswith("speech_encoder.")}
    assert compare(theirs, ours, family) == {}
    spoken = {path: tuple(p.shape) for path, p in model.named_parameters() if path.startswith(("t2u", "vocoder"))}
    assert spoken == {path.removeprefix("speech."): each for path, each in shapes.items() if path[:7] == "speech."}
    assert len(spoken) > 100


@each_class
def test_a_pass_writes_text_and_trains_what_it_runs(family: str, end: str) -> None:
    model = theirs_of(family, end)
    batch, spec = given(end, model), of(family, end)
    load = Load(batch=BATCH, seq=SEQ, source=SOURCE)
    assert forward(spec, load).total == count(lambda: model(**batch))
    assert training(spec, load).total == count(lambda: loss(model(**batch)).backward())
    trained = sum(p.numel() for p in model.parameters() if p.grad is not None)
    assert sum(parameters(spec, trainable=True).values()) == trained < sum(parameters(spec).values())


@each_class
def test_nothing_is_kept_of_what_does_not_run(family: str, end: str) -> None:
    model = theirs_of(family, end)
    batch, load = given(end, model), Load(batch=BATCH, seq=SEQ, source=SOURCE)
    labels = batch["decoder_input_ids"].clone()
    kept = saved_tensors(model, lambda: model(**batch, labels=labels)).total
    assert total(of(family, end), load, Settings("eager", "fp32", device="cpu")) == kept
    plain = of(family, f"For{READS_AS[end]}")
    assert kv_cache(of(family, end), BATCH, SEQ, "bf16", source=SOURCE) == kv_cache(
        plain, BATCH, SEQ, "bf16", source=SOURCE
    )


@each_class
@pytest.mark.parametrize("phase", ["decode", "prefill", "training"])
def test_it_takes_the_time_of_a_pass_that_writes_text(family: str, end: str, phase: Any) -> None:
    one, other = (predict(of(family, name), "h100-sxm", phase=phase, seq=64) for name in (end, f"For{READS_AS[end]}"))
    assert one.seconds == other.seconds


@each_class
def test_the_twin_has_the_same_weights_and_counts(family: str, end: str) -> None:
    spec = of(family, end)
    check(spec, "full-early-stop")
    model = twin(spec).eval()
    for parameter in model.speech.parameters():
        parameter.data.fill_(float("nan"))
    with torch.no_grad():
        assert model(**example(model, BATCH, SEQ, source=SOURCE)).logits.isfinite().all()


def test_the_published_size() -> None:
    """Meta says 2.3B of seamless-m4t-v2-large (arXiv:2312.05187, table 2), which is the class's defaults."""
    sizes = {"hidden_size": 1024, "vocab_size": 256_102, "speech_encoder_layers": 24}
    sizes |= {"speech_encoder_attention_heads": 16, "speech_encoder_intermediate_size": 4096}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": 24, f"{side}_attention_heads": 16, f"{side}_ffn_dim": 8192}
    with torch.device("meta"):
        theirs = transformers.SeamlessM4Tv2Model(transformers.SeamlessM4Tv2Config())
    found = sum(parameters(of("seamless_m4t_v2", "Model", sizes)).values())
    assert found == theirs.num_parameters() == pytest.approx(2.3e9, rel=0.01)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"upsample_kernel_sizes": [5]}, "kernels"),
        ({"resblock_dilation_sizes": [[1]]}, "dilations"),
        ({"resblock_dilation_sizes": [[1], []]}, "resblock_dilation_sizes"),
        ({"upsample_initial_channel": 3}, "n_channels"),
        ({"upsample_rates": [3, 0]}, "rates"),
        ({"t2u_encoder_attention_heads": 5}, "hidden_size"),
    ],
)
def test_what_is_refused(change: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as refusal:
        of("seamless_m4t_v2", "Model", CONFIG | change)
    assert refusal.value.field == field
