"""Twins of text encoders, encoder-decoders and trajectories: counts against `calc`, outputs against transformers."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import calc  # noqa: E402
from calc.architectures import from_config  # noqa: E402
from calc.quantities.flops import forward  # noqa: E402
from calc.spec import Attention, Buckets, Embedding, LayerGroup, Mlp, ModelSpec, Moe, Shaw  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from harness.counter import count  # noqa: E402
from harness.oracles import MODES  # noqa: E402
from reference_models import build  # noqa: E402
from tests.architectures.cases_text import TEXT, text_cases  # noqa: E402
from tests.architectures.test_text import BATCH, SEQ, inputs  # noqa: E402
from tests.architectures.test_text import build as transformers_model  # noqa: E402
from tests.reference_models.test_counts import check, shallow  # noqa: E402
from tests.reference_models.weights import copy_weights  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize(("model_type", "name", "config"), text_cases())
def test_counts_of_every_class(model_type: str, name: str, config: dict[str, Any]) -> None:
    check(from_config({"model_type": model_type, "architectures": [name], **config}))


@pytest.mark.parametrize("name", ["transformer-base", "transformer-big", "bert-base", "electra-small-generator"])
def test_counts_of_presets(name: str) -> None:
    spec = calc.load_model(name)
    encoder = spec.encoder
    if encoder is not None:
        groups = tuple(group.model_copy(update={"count": 2}) for group in encoder.layers)
        spec = spec.model_copy(update={"encoder": encoder.model_copy(update={"layers": groups})})
    check(shallow(spec))


def relative(**structure: Any) -> ModelSpec:
    """A small decoder whose attention has the given fields."""
    mixer = Attention(n_heads=4, n_kv_heads=2, d_value=5, position="none", **structure)
    group = LayerGroup(count=2, mixer=mixer, channel=Mlp(d_ff=24))
    return ModelSpec(d_model=32, vocab_size=50, embedding=Embedding(), layers=(group,))


POSITIONS = (
    {"shaw": Shaw(max_distance=3)},
    {"shaw": Shaw(max_distance=20, values=False), "window": 4},
    {"buckets": Buckets(n_buckets=8, max_distance=12)},
    {"buckets": Buckets(n_buckets=8, max_distance=12, shared=False), "causal": False},
)


@pytest.mark.parametrize("checkpointing", MODES)
@pytest.mark.parametrize("structure", POSITIONS)
def test_counts_of_relative_positions(structure: dict[str, Any], checkpointing: str) -> None:
    check(relative(**structure), checkpointing)


@pytest.mark.parametrize("structure", POSITIONS[:3])
def test_decoding_equals_one_parallel_pass(structure: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = build(relative(**structure)).eval()
    tokens = torch.randint(50, (2, 9))
    with torch.no_grad():
        whole = model(tokens).logits
        for cache in (model.new_cache(), model.new_cache(12)):
            parts = [model(tokens[:, :4], cache=cache).logits]
            parts += [model(tokens[:, i : i + 1], cache=cache).logits for i in range(4, 9)]
            torch.testing.assert_close(torch.cat(parts, dim=1), whole)


def test_shaw_by_hand() -> None:
    """Scores and values with the tables written out: the vector of key minus query, clipped, joins key and value."""
    torch.manual_seed(0)
    attention = build(relative(shaw=Shaw(max_distance=2))).layers[0].attention
    q, k = torch.arange(5), torch.arange(5)
    rows = attention.relative_key(q, k)
    for i in range(5):
        for j in range(5):
            row = max(-2, min(2, j - i)) + 2
            torch.testing.assert_close(rows[i, j], attention.relative_key.weight[row])


@pytest.mark.parametrize("capacity_factor", [0.5, 1.0, 1.1, 2.0])
def test_room_of_experts(capacity_factor: float) -> None:
    moe = Moe(n_experts=4, top_k=1, d_expert=24, gated=False, capacity_factor=capacity_factor)
    mixer = Attention(n_heads=4, position="none")
    spec = ModelSpec(d_model=32, vocab_size=50, layers=(LayerGroup(count=2, mixer=mixer, channel=moe),))
    model = build(spec)
    tokens = torch.randint(50, (BATCH, SEQ))
    assert count(lambda: model(tokens)) == forward(spec, Load(batch=BATCH, seq=SEQ)).total


SOUNDS: tuple[tuple[dict[str, Any], ...], ...] = (
    ({}, {"position_embeddings_type": "rotary", "rotary_embedding_base": 30}),
    (
        {"left_max_position_embeddings": 3, "right_max_position_embeddings": 2, "layer_norm_eps": 0.03},
        {"num_adapter_layers": 2, "adaptor_stride": 2, "speech_encoder_hidden_act": "gelu"},
        {"add_adapter": False, "speech_encoder_chunk_size": 7},
    ),
)
"""What an encoder of speech may be like, of SeamlessM4T and of its second version."""
OUTPUTS = [
    *((name, TEXT[name][1][0], {}) for name in TEXT),
    ("bert", "BertForPreTraining", {}),
    ("bert", "BertLMHeadModel", {"is_decoder": True}),
    ("roberta", "RobertaForSequenceClassification", {}),
    ("roformer", "RoFormerForCausalLM", {"is_decoder": True, "embedding_size": 12}),
    ("roformer", "RoFormerForSequenceClassification", {}),
    ("convbert", "ConvBertForSequenceClassification", {"hidden_act": "relu", "embedding_size": 12}),
    ("xlnet", "XLNetForSequenceClassification", {}),
    *(("funnel", "FunnelForTokenClassification", change) for change in TEXT["funnel"][2]),
    *(("funnel", "FunnelForSequenceClassification", change) for change in ({}, *TEXT["funnel"][2])),
    ("funnel", "FunnelForSequenceClassification", {"block_repeats": [2, 2, 1]}),
    ("funnel", "FunnelForMaskedLM", {"layer_norm_eps": 0.03}),
    ("deberta", "DebertaForMaskedLM", {"pos_att_type": "c2p", "max_relative_positions": 6, "legacy": False}),
    ("deberta", "DebertaForMaskedLM", {"pos_att_type": ["p2c"], "position_biased_input": False}),
    ("deberta-v2", "DebertaV2ForSequenceClassification", {"pooler_hidden_act": "relu"}),
    ("deberta-v2", "DebertaV2ForMaskedLM", {"share_att_key": True, "norm_rel_ebd": "layer_norm", "legacy": False}),
    ("deberta-v2", "DebertaV2ForMaskedLM", {"position_buckets": 6, "pos_att_type": ["c2p"], "type_vocab_size": 2}),
    ("deberta-v2", "DebertaV2ForMaskedLM", {"position_buckets": 6, "max_relative_positions": 7}),
    ("deberta-v2", "DebertaV2ForMaskedLM", {"conv_kernel_size": 3, "conv_act": "gelu", "conv_groups": 2}),
    ("deberta-v2", "DebertaV2ForMaskedLM", {"pos_att_type": "p2c", "max_relative_positions": 9}),
    ("longformer", "LongformerForMaskedLM", {"attention_window": 38, "max_position_embeddings": 14}),
    ("longformer", "LongformerForTokenClassification", {"attention_window": [4, 12, 4]}),
    ("layoutlmv3", "LayoutLMv3ForTokenClassification", {"num_labels": 11, "has_spatial_attention_bias": False}),
    ("big_bird", "BigBirdForCausalLM", {"is_decoder": True, "rescale_embeddings": True}),
    ("big_bird", "BigBirdForSequenceClassification", {"hidden_act": "relu", "use_bias": False}),
    ("big_bird", "BigBirdForPreTraining", {"attention_type": "original_full", "layer_norm_eps": 0.03}),
    ("layoutlmv3", "LayoutLMv3ForQuestionAnswering", {}),
    ("layoutlmv3", "LayoutLMv3ForSequenceClassification", {"rel_2d_pos_bins": 33, "layer_norm_eps": 0.03}),
    ("albert", "AlbertForPreTraining", {}),
    ("electra", "ElectraForMaskedLM", {}),
    ("t5", "T5ForConditionalGeneration", {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    ("t5", "T5ForSequenceClassification", {}),
    ("longt5", "LongT5ForConditionalGeneration", {"encoder_attention_type": "transient-global"}),
    ("longt5", "LongT5ForConditionalGeneration", {"encoder_attention_type": "transient-global", "local_radius": 20}),
    ("longt5", "LongT5ForConditionalGeneration", {"local_radius": 3, "tie_word_embeddings": False}),
    ("bart", "BartForConditionalGeneration", {"scale_embedding": True}),
    ("bart", "BartForSequenceClassification", {}),
    ("imagegpt", "ImageGPTForImageClassification", {}),
    *(("seamless_m4t_v2", "SeamlessM4Tv2ForSpeechToText", extra) for extra in SOUNDS[1]),
    *(("seamless_m4t", "SeamlessM4TForSpeechToText", extra) for extra in SOUNDS[0]),
    ("t5gemma2", "T5Gemma2ForConditionalGeneration", TEXT["t5gemma2"][2][1]),
]


@pytest.mark.parametrize(("model_type", "name", "extra"), OUTPUTS)
def test_outputs_equal_transformers(model_type: str, name: str, extra: dict[str, Any]) -> None:
    config = TEXT[model_type][0] | extra
    theirs = transformers_model(model_type, name, config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            # Tables that nobody trains (RoFormer's angles) stay what they are.
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter) * 0.3)
    written = {"model_type": model_type, "architectures": [name], "pad_token_id": theirs.config.pad_token_id}
    ours = build(from_config(written | config)).eval()
    copy_weights(theirs, ours, model_type)
    batch = inputs(theirs)
    given = arguments(batch)
    if theirs.config.is_encoder_decoder and "source" not in given:
        # Classifiers read the same text on both sides, one place later in the decoder.
        later = batch["input_ids"].roll(1, dims=1)
        later[:, 0] = theirs.config.decoder_start_token_id
        given = {"inputs": later, "source": batch["input_ids"]}
    with torch.no_grad():
        expected, found = theirs(**batch), ours(**given)
    for value in their_results(expected):
        ends = () if "span" not in found.heads else found.heads["span"].unbind(-1)
        results = [t for t in (found.logits, *found.heads.values(), *ends) if t is not None]
        mine = [t.reshape(value.shape) for t in results if t.numel() == value.numel()]
        assert any(torch.allclose(t, value, rtol=1e-4, atol=1e-4) for t in mine), value.shape


def test_pictures_among_the_tokens_of_an_encoder() -> None:
    """T5Gemma 2's, of which each text has one: the work that they are, and the logits."""
    config = TEXT["t5gemma2"][0] | {"image_token_index": 96}
    theirs = transformers_model("t5gemma2", "T5Gemma2ForConditionalGeneration", config).double().eval()
    spec = from_config({"model_type": "t5gemma2", **config})
    ours = build(spec).double().eval()
    tokens, at = torch.randint(3, 90, (BATCH, 20)), torch.zeros(BATCH, 20, dtype=torch.bool)
    at[:, 2:18] = True
    tokens[:, 18] = 95
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
        copy_weights(theirs, ours, "t5gemma2")
        matrix = theirs.model.encoder.multi_modal_projector.mm_input_projection_weight
        ours.vision.projector.linear.weight.copy_(matrix.T)
        read = {"input_ids": tokens.masked_fill(at, 96), "decoder_input_ids": torch.randint(3, 90, (BATCH, SEQ))}
        read["pixel_values"] = torch.rand(BATCH, 3, 32, 32, dtype=torch.float64)
        expected = theirs(**read).logits
        found = ours(read["decoder_input_ids"], source=tokens, images=read["pixel_values"], image_at=at).logits
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    load = Load(batch=BATCH, seq=SEQ, source=20, images=BATCH)
    assert forward(spec, load).total == count(lambda: theirs(**read))


def arguments(batch: dict[str, Any]) -> dict[str, Any]:
    """Our names of transformers' inputs."""
    if "states" in batch:
        return {"inputs": torch.cat([batch["returns_to_go"], batch["states"], batch["actions"]], dim=-1)}
    if "decoder_input_ids" in batch:
        return {"inputs": batch["decoder_input_ids"], "source": batch.get("input_features", batch.get("input_ids"))}
    if "bbox" in batch:
        return {"inputs": batch["input_ids"], "boxes": batch["bbox"], "images": batch["pixel_values"]}
    return {"inputs": batch["input_ids"]}


def their_results(output: Any) -> list[Any]:
    """Every prediction: logits, whatever they are called."""
    names = [name for name in list(output) if "logits" in name or name.endswith("preds")]
    found = [output[name] for name in names if torch.is_tensor(output[name])]
    assert found
    return found
