"""What encoders' own kinds of attention keep, to the byte, and in three readings: vectors of distances, spans."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward  # noqa: E402
from calc.spec import (  # noqa: E402
    Attention,
    Buckets,
    Disentangled,
    GatedBias,
    LayerGroup,
    Lora,
    Mlp,
    ModelSpec,
    Norm,
    SideConvolution,
)
from calc.spec.load import Load  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from reference_models.saved import saved_tensors  # noqa: E402
from tests.architectures.cases_media import ADAPTED, MEDIA  # noqa: E402
from tests.architectures.cases_text import TEXT  # noqa: E402
from tests.architectures.test_media import build as built  # noqa: E402
from tests.architectures.test_text import build as text_model  # noqa: E402
from tests.architectures.test_text import inputs as text_inputs  # noqa: E402
from tests.reference_models.test_counts import check as counted  # noqa: E402
from tests.saved.test_readings import agree, total  # noqa: E402
from tests.saved.test_twins import (  # noqa: E402
    MODES,
    SEQ,
    Mode,
    check,
    expected,
    kept_inputs,
    measured,
    twin,
)

DROPOUTS = (
    *("hidden_dropout", "activation_dropout", "attention_dropout", "feat_proj_dropout", "layerdrop"),
    "conformer_conv_dropout",
)
CLASSES = {"wavlm": "WavLMModel", "wav2vec2-bert": "Wav2Vec2BertModel", "wav2vec2-conformer": "Wav2Vec2ConformerModel"}
TABLES: tuple[dict[str, Any], ...] = (
    {"n_distances": 6},
    {"n_distances": 6, "keys": False, "key_bias": False},
    {"n_distances": 6, "queries": False, "normed": True},
    {"n_distances": 40, "own": False},
    {"n_distances": 8, "own": False, "normed": True, "max_distance": 20},
    {"n_distances": 9, "nearest": True},
    {"n_distances": 40, "nearest": True, "key_bias": False},
)


def of(table: dict[str, Any], n_heads: int = 4, **fields: Any) -> ModelSpec:
    """A small encoder of three layers."""
    how: dict[str, Any] = {"causal": False, "position": "none", "qkv_bias": True, "softmax": "model"}
    mixer = Attention(n_heads=n_heads, disentangled=Disentangled(**table), **how)
    group = LayerGroup(
        count=3, mixer=mixer, channel=Mlp(), norm=Norm(kind="layernorm", bias=True), residual_dropout=True
    )
    return ModelSpec(d_model=16, vocab_size=31, layers=(group,), **fields)


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_every_table(table: dict[str, Any]) -> None:
    for mode in MODES:
        check(of(table), mode)


@pytest.mark.parametrize("table", TABLES, ids=str)
@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
def test_counts(table: dict[str, Any], checkpointing: str) -> None:
    counted(of(table), checkpointing)


def test_one_head() -> None:
    """Sequences of one head need no copies."""
    for mode in MODES:
        check(of(TABLES[0], n_heads=1), mode)


@pytest.mark.parametrize("table", TABLES[2:6], ids=str)
@pytest.mark.parametrize("how", [Settings(), Settings("sdpa", autocast=True)], ids=lambda how: how.execution)
def test_three_readings_agree(table: dict[str, Any], how: Settings) -> None:
    agree(of(table), how)


@pytest.mark.parametrize(("n_heads", "span"), [(2, 3), (1, 5), (4, 1)])
def test_convolutions_of_spans(n_heads: int, span: int) -> None:
    how: dict[str, Any] = {"causal": False, "position": "none", "softmax": "model"}
    group = LayerGroup(count=3, mixer=Attention(n_heads=n_heads, d_head=6, span=span, **how), channel=Mlp())
    spec = ModelSpec(d_model=16, vocab_size=31, layers=(group,))
    counted(spec, "selective")
    for mode in MODES:
        check(spec, mode)


@pytest.mark.parametrize("beside", [SideConvolution(), SideConvolution(kernel=5, groups=4, activation="gelu")], ids=str)
def test_a_convolution_beside_the_first_layer(beside: SideConvolution) -> None:
    plain = of(TABLES[0])
    first, later = (
        plain.layers[0].model_copy(update={"name": name, "count": n, "beside": each})
        for name, n, each in (("first", 1, beside), ("later", 2, None))
    )
    spec = plain.model_copy(update={"layers": (first, later)})
    counted(spec, "full")
    for mode in MODES:
        check(spec, mode)


@pytest.mark.parametrize("n_heads", [1, 4])
def test_distances_of_each_sequence(n_heads: int) -> None:
    """XLNet's: projected anew for all sequences; dropped out once for all layers."""
    mixer = Attention(n_heads=n_heads, causal=False, position="xlnet", softmax="model")
    group = LayerGroup(count=3, mixer=mixer, channel=Mlp(), residual_dropout=True, outer_dropout="both")
    spec = ModelSpec(d_model=16, vocab_size=31, layers=(group,))
    counted(spec, "full")
    for mode in MODES:
        check(spec, mode)


@pytest.mark.parametrize("change", [{}, *TEXT["funnel"][2]], ids=str)
@pytest.mark.parametrize("name", ["FunnelForPreTraining", "FunnelForSequenceClassification"])
def test_halved_texts(name: str, change: dict[str, Any]) -> None:
    spec = from_config({"model_type": "funnel", "architectures": [name], **TEXT["funnel"][0], **change})
    for checkpointing in ("selective", "full"):
        counted(spec, checkpointing)
    for mode in MODES:
        check(spec, mode)
    agree(spec, Settings("eager", autocast=True))
    with pytest.raises(Refused, match="execution"):
        total(spec, Load(batch=2, seq=SEQ), Settings("compiled"))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("how", [Settings("eager", "fp32", device="cpu"), Settings(autocast=True, device="cpu")])
@pytest.mark.parametrize("change", [{}, *TEXT["funnel"][2]], ids=str)
def test_halved_texts_keep_what_transformers_keeps(change: dict[str, Any], how: Settings, batch: int) -> None:
    pytest.importorskip("transformers")
    config = TEXT["funnel"][0] | change
    model, tokens = text_model("funnel", "FunnelForPreTraining", config), torch.randint(3, 90, (batch, SEQ))

    def forward_pass() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=how.autocast):
            return model(tokens).logits

    kept = saved_tensors(model, forward_pass).total
    assert total(from_config({"model_type": "funnel", **config}), Load(batch=batch, seq=SEQ), how) == kept


@pytest.mark.parametrize("change", [{}, *TEXT["funnel"][2]], ids=str)
@pytest.mark.parametrize("mode", [MODES[0], MODES[2], MODES[5]], ids=str)
def test_halved_texts_under_full_checkpointing(change: dict[str, Any], mode: Mode) -> None:
    """The vectors ahead of a halving are kept once, as what it keeps or as what the layer behind it reads."""
    spec = from_config({"model_type": "funnel", **TEXT["funnel"][0], **change})
    assert measured(twin(spec, mode), mode, "full").total == kept_inputs(expected(spec, mode))


@pytest.mark.parametrize("n_heads", [1, 4])
def test_gated_numbers_of_distances(n_heads: int) -> None:
    """WavLM's: numbers of one table, laid down for each sequence, times gates that each layer makes."""
    mixer = GatedBias(n_heads=n_heads, d_head=16 // n_heads, buckets=Buckets(n_buckets=12, max_distance=9))
    group = LayerGroup(count=3, mixer=mixer, channel=Mlp(), norm=Norm(kind="layernorm", bias=True), placement="post")
    spec = ModelSpec(d_model=16, vocab_size=31, layers=(group,))
    for checkpointing in ("none", "selective", "full"):
        counted(spec, checkpointing)
    for mode in MODES:
        check(spec, mode)
    agree(spec, Settings("sdpa", autocast=True))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("how", [Settings("eager", "fp32", device="cpu"), Settings(autocast=True, device="cpu")])
@pytest.mark.parametrize(
    ("family", "change"),
    [
        ("wavlm", {}),
        ("wavlm", {"do_stable_layer_norm": True}),
        ("wav2vec2-bert", {}),
        ("wav2vec2-bert", {"position_embeddings_type": None}),
        ("wav2vec2-bert", {"add_adapter": True}),
        ("wav2vec2-bert", ADAPTED | {"num_adapter_layers": 2}),
        ("wav2vec2-conformer", {"position_embeddings_type": "rotary"}),
        ("wav2vec2-conformer", {"position_embeddings_type": None}),
    ],
)
def test_sound_keeps_what_transformers_keeps(family: str, change: dict[str, Any], how: Settings, batch: int) -> None:
    """But for 4 bytes for each place of WavLM's convolution of positions, which is the norm of its weights there."""
    pytest.importorskip("transformers")
    config = MEDIA[family][0] | change | {"mask_time_prob": 0.0, **dict.fromkeys(DROPOUTS, 0.0)}
    model = built(family, CLASSES[family], config).train()
    sound = torch.rand(batch, 23, 12) if family == "wav2vec2-bert" else torch.rand(batch, 400)

    def forward_pass() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=how.autocast):
            return model(sound).last_hidden_state

    kept = saved_tensors(model, forward_pass).total
    raw = {"model_type": family, "architectures": [CLASSES[family]], **config}
    counted_bytes = total(from_config(raw), Load(batch=batch, source=sound.shape[1]), how)
    assert counted_bytes == kept + 4 * (config["num_conv_pos_embeddings"] if family == "wavlm" else 0)


@pytest.mark.parametrize("change", [{}, *MEDIA["gemma3n_audio"][2]], ids=str)
def test_what_hears_in_chunks(change: dict[str, Any]) -> None:
    """Gemma 3n's ears."""
    spec = from_config({"model_type": "gemma3n_audio", **MEDIA["gemma3n_audio"][0], **change})
    for mode in MODES:
        check(spec, mode)
    with pytest.raises(Refused, match="execution"):
        total(spec, Load(batch=2, source=43), Settings("compiled"))


@pytest.mark.parametrize("how", [Settings("eager"), Settings("eager", autocast=True)], ids=str)
def test_three_readings_of_what_hears_in_chunks_agree(how: Settings) -> None:
    """Of several heads, channels and chunks: one of these alone is read as it lies, which no symbol can know."""
    agree(from_config({"model_type": "gemma3n_audio", **MEDIA["gemma3n_audio"][0]}), how)


@pytest.mark.parametrize("change", [{}, *MEDIA["gemma3n_audio"][2]], ids=str)
@pytest.mark.parametrize("mode", [MODES[0], MODES[2], MODES[5]], ids=str)
def test_what_hears_in_chunks_under_full_checkpointing(change: dict[str, Any], mode: Mode) -> None:
    spec = from_config({"model_type": "gemma3n_audio", **MEDIA["gemma3n_audio"][0], **change})
    assert measured(twin(spec, mode), mode, "full").total == kept_inputs(expected(spec, mode))


@pytest.mark.parametrize(("batch", "frames"), [(1, 23), (2, 23), (3, 16), (1, 4), (2, 4)])
@pytest.mark.parametrize(
    "how",
    [Settings("eager", "fp32", device="cpu"), Settings(autocast=True, device="cpu"), Settings("eager", device="cpu")],
    ids=lambda how: f"{how.dtype} {how.autocast}",
)
@pytest.mark.parametrize("change", [{}, *MEDIA["gemma3n_audio"][2]], ids=str)
def test_what_hears_in_chunks_keeps_what_transformers_keeps(
    change: dict[str, Any], how: Settings, batch: int, frames: int
) -> None:
    pytest.importorskip("transformers")
    config = MEDIA["gemma3n_audio"][0] | change
    model = built("gemma3n_audio", "Gemma3nAudioEncoder", config).train()
    model = model.bfloat16() if how.dtype == "bf16" and not how.autocast else model
    mel = torch.rand(batch, frames, 16, dtype=next(model.parameters()).dtype)

    def forward_pass() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=how.autocast):
            return model(mel, torch.zeros(batch, frames, dtype=torch.bool)).last_hidden_state

    kept = saved_tensors(model, forward_pass).total
    assert total(from_config({"model_type": "gemma3n_audio", **config}), Load(batch=batch, source=frames), how) == kept


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("how", [Settings("eager", "fp32", device="cpu"), Settings(autocast=True, device="cpu")])
@pytest.mark.parametrize("change", [{}, *MEDIA["parakeet_ctc"][2]])
def test_parakeet_keeps_what_transformers_keeps(change: dict[str, Any], how: Settings, batch: int) -> None:
    pytest.importorskip("transformers")
    config = MEDIA["parakeet_ctc"][0] | change
    config |= {"encoder_config": config["encoder_config"] | dict.fromkeys(("dropout", *DROPOUTS), 0.0)}
    model = built("parakeet_ctc", "ParakeetForCTC", config).train()
    mel = torch.rand(batch, 43, config["encoder_config"]["num_mel_bins"])

    def forward_pass() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=how.autocast):
            return model(mel).logits

    kept = saved_tensors(model, forward_pass).total
    assert total(from_config({"model_type": "parakeet_ctc", **config}), Load(batch=batch, source=43), how) == kept


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("pictures", [True, False])
@pytest.mark.parametrize("how", [Settings("eager", "fp32", device="cpu"), Settings(autocast=True, device="cpu")])
@pytest.mark.parametrize(
    ("kind", "change"),
    [("TokenClassification", {"has_spatial_attention_bias": False}), ("TokenClassification", {"num_labels": 11}),
     ("QuestionAnswering", {}), ("SequenceClassification", {})],
)  # fmt: skip
def test_pages_keep_what_transformers_keeps(
    kind: str, change: dict[str, Any], how: Settings, pictures: bool, batch: int
) -> None:
    """But for numbers of positions, which it has for each text."""
    pytest.importorskip("transformers")
    config, name = TEXT["layoutlmv3"][0] | change, f"LayoutLMv3For{kind}"
    model = text_model("layoutlmv3", name, config)
    given = {key: value[:batch].clone() for key, value in text_inputs(model).items()}
    if not pictures:
        given.pop("pixel_values")

    def forward_pass() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=how.autocast):
            return model(**given)

    kept, seq = saved_tensors(model, forward_pass).total, given["input_ids"].shape[1]
    spec = from_config({"model_type": "layoutlmv3", "architectures": [name], **config})
    assert total(spec, Load(batch=batch, seq=seq, images=batch * pictures), how) == kept - 8 * seq * (batch - 1)


def test_updates_of_matrices_that_vectors_pass_too_are_refused() -> None:
    for own in (True, False):
        spec = of({"n_distances": 6, "own": own}, adapter=Lora(rank=2, targets=("v_proj", "k_proj")))
        if own:
            assert forward(spec, Load(batch=1, seq=SEQ)).total > 0
            continue
        with pytest.raises(Refused, match="targets"):
            forward(spec, Load(batch=1, seq=SEQ))


@pytest.mark.parametrize("fields", [{"causal": True}, {"window": 4}, {"fused": True}, {"position": "rope"}], ids=str)
def test_what_knows_no_such_distances_is_refused(fields: dict[str, Any]) -> None:
    how: dict[str, Any] = {"causal": False, "position": "none"} | fields
    with pytest.raises(ValueError, match=r"(disentangled|position): expected none"):
        Attention(n_heads=4, disentangled=Disentangled(n_distances=6), **how)


@pytest.mark.parametrize("fields", [{"causal": True}, {"span": 4}, {"gate": True}, {"window": 3}], ids=str)
def test_what_knows_no_spans_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="span: expected"):
        Attention(n_heads=4, **{"causal": False, "position": "none", "span": 3} | fields)
