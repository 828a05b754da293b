"""Text encoders, encoder-decoders and GPT-2's kin against transformers' own classes of the same config, at small size.

Counted there: elements of each parameter and FLOPs of matrix products, forward and backward, over sources and targets
of different length; bytes of the caches, and the FLOPs of one more token, where the class keeps a cache.
"""

from __future__ import annotations

import json
from dataclasses import replace
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
from calc.spec.load import Load  # noqa: E402
from harness.counter import count  # noqa: E402
from tests.architectures.cases_text import TEXT, text_cases  # noqa: E402
from tests.architectures.mended import with_two_experts_a_token  # noqa: E402
from tests.architectures.renaming import compare  # noqa: E402

BATCH, SEQ, SOURCE = 2, 11, 7
T5_KIN = ("T5", "MT5", "UMT5", "LongT5", "Switch")
OF_A_STACK = ("layers.", "final_norm.", "relative_bias.", "summary_bias.")
"""What stands below `encoder.` in transformers also where the encoder is the whole model."""
HEARING = {"architectures": ["SeamlessM4Tv2ForSpeechToText"]}
NO_DROPOUT = (
    *("speech_encoder_dropout", "speech_encoder_layerdrop", "adaptor_dropout", "activation_dropout"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout", "dropout_rate"),
    *("encoder_layerdrop", "decoder_layerdrop"),
    *("hidden_dropout", "activation_dropout"),
    *("resid_pdrop", "embd_pdrop", "attn_pdrop", "qa_dropout", "seq_classif_dropout"),
)


def build(model_type: str, name: str, config: dict[str, Any]) -> Any:
    """transformers' model of this class in training mode without dropout, on the CPU: routing needs real values."""
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    parsed = transformers.AutoConfig.for_model(model_type, **special, **config)
    for key in NO_DROPOUT:
        if hasattr(parsed, key):
            setattr(parsed, key, 0.0)
    parsed._attn_implementation = "eager"
    torch.manual_seed(0)
    return with_two_experts_a_token(getattr(transformers, name)(parsed).train())


def inputs(model: Any) -> dict[str, Any]:
    """One batch as the class takes it: SOURCE tokens for an encoder beside a decoder, SEQ for everything else."""
    if model.config.model_type == "decision_transformer":
        steps = {"states": model.config.state_dim, "actions": model.config.act_dim, "returns_to_go": 1}
        floats = {key: torch.randn(BATCH, SEQ, width) for key, width in steps.items()}
        return floats | {"timesteps": torch.arange(SEQ).expand(BATCH, -1)}
    if model.main_input_name == "input_features":
        return {"input_features": _frames(model), "decoder_input_ids": _ids(SEQ)}
    if _two_inputs(model):
        return {"input_ids": _ids(SOURCE), "decoder_input_ids": _ids(SEQ)}
    if model.config.model_type == "layoutlmv3":
        return {"input_ids": _ids(SEQ)} | _page(model.config)
    return {"input_ids": _ids(SEQ)}


def _frames(model: Any) -> Any:
    return torch.rand(BATCH, SOURCE, model.config.feature_projection_input_dim)


def _page(config: Any) -> dict[str, Any]:
    """Boxes of the tokens, and the picture of each page."""
    ends = torch.randint(0, 1000, (BATCH, SEQ, 2, 2)).sort(2).values
    pixels = torch.rand(BATCH, config.num_channels, config.input_size, config.input_size)
    return {"bbox": ends.flatten(2), "pixel_values": pixels}


def _ids(length: int) -> Any:
    tokens = torch.randint(3, 90, (BATCH, length))
    tokens[:, -1] = 2  # some classifiers read where the sequence ends
    return tokens


def _two_inputs(model: Any) -> bool:
    """Whether the class reads a source and a target; classifiers feed the decoder what the encoder reads."""
    alone = ("EncoderModel", "TokenClassification", "SequenceClassification")
    return model.config.is_encoder_decoder and not type(model).__name__.endswith(alone)


def loss(output: Any) -> Any:
    """A number that every floating output takes part in."""
    tensors = [value for value in output.to_tuple() if torch.is_tensor(value) and value.is_floating_point()]
    return sum(tensor.float().sum() for tensor in tensors)


@pytest.mark.parametrize(("model_type", "name", "config"), text_cases())
def test_same_as_transformers(model_type: str, name: str, config: dict[str, Any]) -> None:
    model = build(model_type, name, config)
    theirs = {path: parameter.numel() for path, parameter in model.named_parameters()}
    saved = json.loads(model.config.to_json_string(use_diff=False))
    batch, load = inputs(model), Load(batch=BATCH, seq=SEQ, source=SOURCE if _two_inputs(model) else SEQ)
    load = replace(load, images=len(batch.get("pixel_values", ())))
    once = count(lambda: model(**batch))
    # The config as people write it, and as transformers saves it.
    for raw in ({"model_type": model_type, **config}, saved):
        spec = from_config(raw | {"architectures": [name]})
        ours = {path: prod(shape) for path, shape in parameter_shapes(spec).items()}
        if name.startswith(T5_KIN) and spec.encoder is None:
            ours = {f"encoder.{p}" if p.startswith(OF_A_STACK) else p: n for p, n in ours.items()}
        assert compare(theirs, ours, model_type) == {}
        assert forward(spec, load).total == once
    assert training(spec, load).total == count(lambda: loss(model(**batch)).backward())


LOSSES = (
    *(("bert", name) for name in ("BertForMaskedLM", "BertForPreTraining", "BertLMHeadModel")),
    *(("roberta", name) for name in ("RobertaForMaskedLM", "RobertaForCausalLM")),
    ("modernbert", "ModernBertForMaskedLM"),
    *(("megatron-bert", name) for name in ("MegatronBertForMaskedLM", "MegatronBertForCausalLM")),
    *(("xlm-roberta-xl", name) for name in ("XLMRobertaXLForMaskedLM", "XLMRobertaXLForCausalLM")),
    *(("roberta-prelayernorm", f"RobertaPreLayerNormFor{end}") for end in ("MaskedLM", "CausalLM")),
    *(("electra", name) for name in ("ElectraForMaskedLM", "ElectraForCausalLM")),
    ("convbert", "ConvBertForMaskedLM"),
    ("longformer", "LongformerForMaskedLM"),
    *(("big_bird", f"BigBirdFor{end}") for end in ("MaskedLM", "PreTraining", "CausalLM")),
    ("xlnet", "XLNetLMHeadModel"),
    ("funnel", "FunnelForMaskedLM"),
    ("deberta", "DebertaForMaskedLM"),
    ("deberta-v2", "DebertaV2ForMaskedLM"),
    ("albert", "AlbertForMaskedLM"),
    ("albert", "AlbertForPreTraining"),
    ("distilbert", "DistilBertForMaskedLM"),
    ("t5", "T5ForConditionalGeneration"),
    ("mt5", "MT5ForConditionalGeneration"),
    ("umt5", "UMT5ForConditionalGeneration"),
    ("longt5", "LongT5ForConditionalGeneration"),
    ("switch_transformers", "SwitchTransformersForConditionalGeneration"),
    ("bart", "BartForConditionalGeneration"),
    ("marian", "MarianMTModel"),
    ("led", "LEDForConditionalGeneration"),
    ("m2m_100", "M2M100ForConditionalGeneration"),
    ("blenderbot-small", "BlenderbotSmallForConditionalGeneration"),
    ("nllb-moe", "NllbMoeForConditionalGeneration"),
    ("openai-gpt", "OpenAIGPTLMHeadModel"),
    ("imagegpt", "ImageGPTForCausalImageModeling"),
    ("t5gemma", "T5GemmaForConditionalGeneration"),
    *(("seamless_m4t_v2", f"SeamlessM4Tv2For{end}") for end in ("TextToText", "SpeechToText")),
    ("t5gemma2", "T5Gemma2ForConditionalGeneration"),
)


@pytest.mark.parametrize(("model_type", "name"), LOSSES)
@torch.no_grad()
def test_format_of_the_loss(model_type: str, name: str) -> None:
    """Of a model in half precision, the loss is in fp32 where its logits were widened, and else in theirs."""
    config = TEXT[model_type][0]
    model = build(model_type, name, config).to(torch.bfloat16)
    batch = inputs(model)
    batch = {key: value.to(torch.bfloat16) if key == "input_features" else value for key, value in batch.items()}
    targets = batch["decoder_input_ids" if "decoder_input_ids" in batch else "input_ids"]
    asks_for_the_next = name in ("BertForPreTraining", "BigBirdForPreTraining")
    more = {"next_sentence_label": targets[:, 0] % 2} if asks_for_the_next else {}
    more |= {"sentence_order_label": targets[:, 0] % 2} if name == "AlbertForPreTraining" else {}
    found = model(**batch, labels=targets, **more).loss.dtype
    head = from_config({"model_type": model_type, "architectures": [name], **config}).head
    assert head is not None
    assert found == (torch.float32 if head.wide_loss else torch.bfloat16)


CACHED = [
    ("bert", "BertLMHeadModel", {"is_decoder": True}),
    ("big_bird", "BigBirdForCausalLM", {"is_decoder": True}),
    ("roberta", "RobertaForCausalLM", {"is_decoder": True}),
    ("electra", "ElectraForCausalLM", {"is_decoder": True}),
    ("modernbert-decoder", "ModernBertDecoderForCausalLM", {}),
    ("t5", "T5ForConditionalGeneration", {}),
    ("t5", "T5ForConditionalGeneration", {"feed_forward_proj": "gated-gelu", "num_decoder_layers": 2}),
    ("umt5", "UMT5ForConditionalGeneration", {}),
    ("longt5", "LongT5ForConditionalGeneration", {}),
    ("longt5", "LongT5ForConditionalGeneration", {"encoder_attention_type": "transient-global"}),
    ("switch_transformers", "SwitchTransformersForConditionalGeneration", {}),
    ("bart", "BartForConditionalGeneration", {}),
    ("marian", "MarianMTModel", {}),
    ("led", "LEDForConditionalGeneration", {}),
    ("m2m_100", "M2M100ForConditionalGeneration", {}),
    ("blenderbot-small", "BlenderbotSmallForConditionalGeneration", {}),
    ("nllb-moe", "NllbMoeForConditionalGeneration", {}),
    ("imagegpt", "ImageGPTForCausalImageModeling", {}),
    ("t5gemma2", "T5Gemma2ForConditionalGeneration", {}),
    ("seamless_m4t_v2", "SeamlessM4Tv2ForTextToText", {}),
    ("seamless_m4t_v2", "SeamlessM4Tv2ForSpeechToText", {}),
    ("seamless_m4t", "SeamlessM4TForSpeechToText", {"num_adapter_layers": 2}),
]


@pytest.mark.parametrize(("model_type", "name", "extra"), CACHED)
def test_decoding_with_a_cache(model_type: str, name: str, extra: dict[str, Any]) -> None:
    config = TEXT[model_type][0] | extra
    model = build(model_type, name, config).eval()
    spec = from_config({"model_type": model_type, "architectures": [name], **config})
    paired = model.config.is_encoder_decoder
    with torch.no_grad():
        first = model(**inputs(model))
        cache, one = first.past_key_values, _ids(1)
        parts = [cache.self_attention_cache, cache.cross_attention_cache] if paired else [cache]
        held = sum(t.numel() * t.element_size() for part in parts for at in part.layers for t in (at.keys, at.values))
        if paired:
            source = _frames(model) if model.main_input_name == "input_features" else _ids(SOURCE)
            again = {"encoder_outputs": model.get_encoder()(source), "decoder_input_ids": one}
        else:
            again = {"input_ids": one}
        step = count(lambda: model(**again, past_key_values=cache))
    assert kv_cache(spec, BATCH, SEQ, "fp32", "cache", source=SOURCE).total_bytes == held
    load = Load(batch=BATCH, seq=1, context=SEQ, source=SOURCE, decode=True)
    assert forward(spec, load).total == step


@pytest.mark.parametrize("extra", [{"num_hidden_groups": 2, "inner_group_num": 2}, {"num_hidden_groups": 3}])
def test_albert_with_several_sets_of_weights(extra: dict[str, Any]) -> None:
    config = TEXT["albert"][0] | {"num_hidden_layers": 4} | extra
    model = build("albert", "AlbertForMaskedLM", config)
    spec = from_config({"model_type": "albert", "architectures": ["AlbertForMaskedLM"], **config})
    elements = sum(parameter.numel() for parameter in model.parameters())
    assert sum(parameters(spec).values()) == elements
    assert sum(prod(shape) for shape in parameter_shapes(spec).values()) == elements
    batch = inputs(model)
    assert forward(spec, Load(batch=BATCH, seq=SEQ)).total == count(lambda: model(**batch))


def test_a_head_that_transformers_ties_is_read_both_ways() -> None:
    config = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], **TEXT["t5"][0]}
    one, two = (from_config(config | {"tie_word_embeddings": tied}) for tied in (True, False))
    checkpoint = from_config(config | {"tie_word_embeddings": False}, tying="checkpoint")
    totals = [sum(parameters(spec).values()) for spec in (one, two, checkpoint)]
    assert totals == [totals[0], totals[0], totals[0] + config["vocab_size"] * config["d_model"]]
    assert [any("--tying checkpoint" in str(note) for note in each.notes) for each in (one, two, checkpoint)] == [
        0,
        1,
        0,
    ]


DECODER_ALONE = {"architectures": ["SwitchTransformersEncoderModel"], "is_decoder": True}


@pytest.mark.parametrize(
    ("model_type", "change", "field"),
    [
        ("bert", {"architectures": ["BertForEverything"]}, "architectures"),
        ("bert", {"architectures": ["BertModel", "BertForMaskedLM"]}, "architectures"),
        ("bert", {"architectures": "BertModel"}, "architectures"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ("bert", {"tie_word_embeddings": False}, "tie_word_embeddings"),
        ("bert", {"add_cross_attention": True}, "add_cross_attention"),
        ("albert", {"num_hidden_groups": 7}, "num_hidden_layers"),
        ("t5", {"feed_forward_proj": "gated-gelu", "dense_act_fn": "relu"}, "dense_act_fn"),
        ("t5", {"feed_forward_proj": "gated-relu", "is_gated_act": False}, "is_gated_act"),
        ("switch_transformers", {"num_sparse_encoder_layers": 0}, "num_sparse_encoder_layers"),
        ("switch_transformers", DECODER_ALONE, "is_decoder"),
        ("bart", {"tie_word_embeddings": False}, "tie_word_embeddings"),
        ("mbart", {"normalize_before": False}, "normalize_before"),
        ("mvp", {"use_prompt": True}, "use_prompt"),
        ("led", {"attention_window": [4, 6, 4]}, "attention_window"),
        ("led", {"attention_window": 5}, "attention_window"),
        ("led", {"encoder_attention_heads": 32}, "encoder_attention_heads"),
        ("longformer", {"architectures": ["LongformerForSequenceClassification"]}, "architectures"),
        ("longformer", {"attention_window": [4, 4]}, "attention_window"),
        ("longformer", {"pad_token_id": None}, "pad_token_id"),
        ("longformer", {"onnx_export": True}, "onnx_export"),
        ("layoutlmv3", {"coordinate_size": 8}, "coordinate_size"),
        ("layoutlmv3", {"rel_pos_bins": 3}, "rel_pos_bins"),
        ("layoutlmv3", {"max_rel_2d_pos": 2}, "max_rel_2d_pos"),
        ("layoutlmv3", {"has_relative_attention_bias": False}, "has_spatial_attention_bias"),
        ("layoutlmv3", {"visual_embed": False}, "visual_embed"),
        ("layoutlmv3", {"input_size": 7}, "input_size"),
        ("layoutlmv3", {"pad_token_id": None}, "pad_token_id"),
        ("big_bird", {"architectures": ["BigBirdForQuestionAnswering"]}, "architectures"),
        ("big_bird", {"attention_type": "sliding"}, "attention_type"),
        ("big_bird", {"block_size": 0}, "block_size"),
        ("big_bird", {"num_random_blocks": -1}, "num_random_blocks"),
        ("longt5", {"d_kv": 1}, "d_kv"),
        ("longt5", {"encoder_attention_type": "transient-global", "global_block_size": 1}, "global_block_size"),
        ("marian", {"share_encoder_decoder_embeddings": False}, "share_encoder_decoder_embeddings"),
        ("marian", {"decoder_vocab_size": 98}, "decoder_vocab_size"),
        ("m2m_100", {"static_position_embeddings": False}, "static_position_embeddings"),
        ("nllb-moe", {"second_expert_policy": "random"}, "second_expert_policy"),
        ("nllb-moe", {"moe_eval_capacity_token_fraction": 0.5}, "moe_eval_capacity_token_fraction"),
        ("openai-gpt", {"architectures": ["OpenAIGPTDoubleHeadsModel"]}, "architectures"),
        ("openai-gpt", {"n_inner": 48}, "n_inner"),
        ("seamless_m4t", {"architectures": ["SeamlessM4TCodeHifiGan"]}, "architectures"),
        ("seamless_m4t_v2", {"position_embeddings_type": "relative"} | HEARING, "position_embeddings_type"),
        ("seamless_m4t_v2", {"conv_depthwise_kernel_size": 4} | HEARING, "conv_depthwise_kernel_size"),
        ("seamless_m4t_v2", {"speech_encoder_attention_heads": 5} | HEARING, "hidden_size"),
        ("seamless_m4t_v2", {"tie_word_embeddings": False}, "tie_word_embeddings"),
        ("t5gemma2", {"tie_word_embeddings": False}, "tie_word_embeddings"),
        ("t5gemma2", {"decoder": {"hidden_size": 48, "num_attention_heads": 4}}, "encoder.text_config.hidden_size"),
        ("t5gemma2", {"encoder": {"text_config": {"hidden_size": 32}}}, "encoder.text_config.vocab_size"),
        ("imagegpt", {"tie_word_embeddings": True}, "tie_word_embeddings"),
        ("roformer", {"rotary_value": True}, "rotary_value"),
        ("roformer", {"num_attention_heads": 32}, "num_attention_heads"),
        ("convbert", {"num_groups": 2}, "num_groups"),
        ("convbert", {"conv_kernel_size": 4}, "conv_kernel_size"),
        ("convbert", {"hidden_size": 30, "num_attention_heads": 4}, "hidden_size"),
        ("xlnet", {"attn_type": "uni"}, "attn_type"),
        ("xlnet", {"bi_data": True}, "bi_data"),
        ("xlnet", {"clamp_len": 7}, "clamp_len"),
        ("xlnet", {"d_head": 6}, "d_head"),
        ("funnel", {"block_sizes": [2, 0]}, "block_sizes"),
        ("funnel", {"block_repeats": [2, 1, 1]}, "block_repeats"),
        ("funnel", {"block_repeats": [1, 1]}, "block_repeats"),
        ("funnel", {"block_repeats": [1, 0, 1]}, "block_repeats"),
        ("funnel", {"num_decoder_layers": 0}, "num_decoder_layers"),
        ("funnel", {"num_hidden_layers": 5}, "num_hidden_layers"),
        ("funnel", {"num_blocks": 3}, "num_blocks"),
        ("funnel", {"attention_type": "full"}, "attention_type"),
        ("funnel", {"pooling_type": "min"}, "pooling_type"),
        ("funnel", {"d_model": 33}, "d_model"),
        ("deberta", {"talking_head": True}, "talking_head"),
        ("deberta-v2", {"embedding_size": 16}, "embedding_size"),
        ("deberta-v2", {"conv_kernel_size": 4}, "conv_kernel_size"),
        ("deberta-v2", {"pos_att_type": "c2p", "share_att_key": True}, "share_att_key"),
        ("deberta-v2", {"relative_attention": False, "norm_rel_ebd": "layer_norm"}, "norm_rel_ebd"),
        ("deberta-v2", {"pos_att_type": []}, "pos_att_type"),
        ("deberta-v2", {"pos_att_type": ["c2p", "p2p"]}, "pos_att_type"),
        ("deberta-v2", {"position_buckets": 80}, "position_buckets"),
    ],
)
def test_what_is_refused(model_type: str, change: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as refusal:
        from_config({"model_type": model_type, **TEXT[model_type][0], **change})
    assert refusal.value.field == field


def test_rows_before_the_first_position_are_no_context() -> None:
    """RoBERTa's table begins with the rows up to the padding token's, which no text takes."""
    for extra, longest in (({}, 38), ({"pad_token_id": 0}, 39)):
        assert from_config({"model_type": "roberta", **TEXT["roberta"][0]} | extra).max_seq_len == longest
    assert from_config({"model_type": "bert", **TEXT["bert"][0]}).max_seq_len == 40


def test_what_electra_chooses_by() -> None:
    """A dense layer with the activation that the config names or, without it, that activation alone."""
    raw = {"model_type": "electra", "architectures": ["ElectraForMultipleChoice"], **TEXT["electra"][0]}
    for given, activation in (
        ({}, "gelu"),
        ({"summary_activation": "tanh"}, "tanh"),
        ({"summary_activation": None}, None),
    ):
        dense, classifier = from_config(raw | given).heads
        assert (dense.activation, classifier.reads) == (activation, "dense")
    (alone,) = from_config(raw | {"summary_use_proj": False, "summary_activation": "relu"}).heads
    assert (alone.activation_before, alone.reads) == ("relu", None)


def test_which_experts_transformers_runs_in_nllb_moe() -> None:
    """As the description's note says it; when this changes, `mended.py` and the note have had their time."""
    config = TEXT["nllb-moe"][0]
    parsed = transformers.AutoConfig.for_model("nllb-moe", **config)
    layer = transformers.NllbMoeForConditionalGeneration(parsed).eval().model.encoder.layers[1].ffn
    rows: dict[str, int] = {}
    for name, expert in layer.experts.items():
        expert.register_forward_hook(lambda _, given, out, name=name: rows.update({name: len(given[0])}))
    layer(torch.randn(BATCH, SEQ, config["d_model"]))
    tokens = BATCH * SEQ
    assert rows == {"expert_0": tokens * (config["num_experts"] - 1), "expert_1": tokens}


def test_labels_decide_the_width_of_a_classifier() -> None:
    config = {"model_type": "bert", "architectures": ["BertForSequenceClassification"], **TEXT["bert"][0]}
    for extra, classes in (({}, 2), ({"num_labels": 5}, 5), ({"id2label": {"0": "a", "1": "b", "2": "c"}}, 3)):
        assert parameter_shapes(from_config(config | extra))["classifier.dense.weight"] == (classes, 32)
    with pytest.raises(Refused):
        from_config(config | {"num_labels": 5, "id2label": {"0": "a"}})
