"""Hugging Face's names of parameter tensors in text encoders and encoder-decoders, read as ours.

Each family has a list of (regex of a whole name, our names). `N` stands for the number of a layer, or `{}`.
"""

from __future__ import annotations

import re

NUMBER = r"(?P<n>\d+|\{\})"
Rules = tuple[tuple[str, tuple[str, ...]], ...]


def _one(*rules: tuple[str, str]) -> Rules:
    return tuple((theirs, (ours,)) for theirs, ours in rules)


_TABLES = _one(
    (r"(?:.*\.)?word_embeddings\.weight", "embedding.token.weight"),
    (r"(?:.*\.)?position_embeddings\.weight", "embedding.position.weight"),
    (r"(?:.*\.)?token_type_embeddings\.weight", "embedding.token_type.weight"),
    (r"(?:.*\.)?embeddings\.LayerNorm\.(?P<w>\w+)", r"embedding.norm.\g<w>"),
)
_HEADS = _one(
    (r"(?:.*\.)?pooler(?:\.dense)?\.(?P<w>\w+)", r"pooler.dense.\g<w>"),
    (r"qa_outputs\.(?P<w>\w+)", r"span.dense.\g<w>"),
    (r"classifier\.(?P<w>weight|bias)", r"classifier.dense.\g<w>"),
)
_BERT_LAYER = _one(
    (r"(?:.*\.)?layer\.N\.attention\.self\.query\.(?P<w>\w+)", r"layers.N.attention.q_proj.\g<w>"),
    (r"(?:.*\.)?layer\.N\.attention\.self\.key\.(?P<w>\w+)", r"layers.N.attention.k_proj.\g<w>"),
    (r"(?:.*\.)?layer\.N\.attention\.self\.value\.(?P<w>\w+)", r"layers.N.attention.v_proj.\g<w>"),
    (r"(?:.*\.)?layer\.N\.attention\.output\.dense\.(?P<w>\w+)", r"layers.N.attention.o_proj.\g<w>"),
    (r"(?:.*\.)?layer\.N\.attention\.output\.LayerNorm\.(?P<w>\w+)", r"layers.N.attention_norm.\g<w>"),
    (r"(?:.*\.)?layer\.N\.intermediate\.dense\.(?P<w>\w+)", r"layers.N.mlp.up_proj.\g<w>"),
    (r"(?:.*\.)?layer\.N\.output\.dense\.(?P<w>\w+)", r"layers.N.mlp.down_proj.\g<w>"),
    (r"(?:.*\.)?layer\.N\.output\.LayerNorm\.(?P<w>\w+)", r"layers.N.channel_norm.\g<w>"),
)
_NORMS_BEFORE = _one(
    (r"(?:.*\.)?layer\.N\.attention\.(?:ln|self_attn_layer_norm)\.(?P<w>\w+)", r"layers.N.attention_norm.\g<w>"),
    (r"(?:.*\.)?layer\.N\.(?:ln|LayerNorm)\.(?P<w>\w+)", r"layers.N.channel_norm.\g<w>"),
    (r"(?:.*\.)?encoder\.(?:ln|LayerNorm)\.(?P<w>\w+)", r"final_norm.\g<w>"),
)
_NORMS_INSIDE = _one(
    (r"(?:.*\.)?layer\.N\.attention\.LayerNorm\.(?P<w>\w+)", r"layers.N.attention_norm.\g<w>"),
    (r"(?:.*\.)?layer\.N\.intermediate\.LayerNorm\.(?P<w>\w+)", r"layers.N.channel_norm.\g<w>"),
    (r"(?:roberta_prelayernorm\.)?LayerNorm\.(?P<w>\w+)", r"final_norm.\g<w>"),
)
_OWN_CLASSIFIER = _one(
    (r"(?:classifier|classification_head)\.dense\.(?P<w>\w+)", r"dense.dense.\g<w>"),
    (r"(?:classifier|classification_head)\.out_proj\.(?P<w>\w+)", r"classifier.dense.\g<w>"),
)

BERT = _TABLES + _BERT_LAYER + _HEADS
BERT += _one(
    (r"cls\.predictions\.bias", "lm_head.bias"),
    (r"cls\.predictions\.transform\.dense\.(?P<w>\w+)", r"lm_head.transform.\g<w>"),
    (r"cls\.predictions\.transform\.LayerNorm\.(?P<w>\w+)", r"lm_head.transform_norm.\g<w>"),
    (r"cls\.seq_relationship\.(?P<w>\w+)", r"next_sentence.dense.\g<w>"),
)
ROBERTA = _TABLES + _BERT_LAYER + _HEADS + _OWN_CLASSIFIER
ROBERTA += _one(
    (r"lm_head\.decoder\.weight", "embedding.token.weight"),
    (r"lm_head\.(?:decoder\.)?bias", "lm_head.bias"),
    (r"lm_head\.dense\.(?P<w>\w+)", r"lm_head.transform.\g<w>"),
    (r"lm_head\.layer_norm\.(?P<w>\w+)", r"lm_head.transform_norm.\g<w>"),
)
LONGFORMER = _one(
    (
        r"(?:.*\.)?layer\.N\.attention\.self\.(?P<m>[qkv])(?:uery|ey|alue)_global\.(?P<w>\w+)",
        r"layers.N.attention.\g<m>_global.\g<w>",
    ),
)
LONGFORMER += ROBERTA
BIG_BIRD = BERT + _OWN_CLASSIFIER
MODERNBERT = _one(
    (r"(?:model\.)?embeddings\.tok_embeddings\.weight", "embedding.token.weight"),
    (r"(?:model\.)?embeddings\.norm\.(?P<w>\w+)", r"embedding.norm.\g<w>"),
    (r"(?:model\.)?layers\.N\.attn_norm\.(?P<w>\w+)", r"layers.N.attention_norm.\g<w>"),
    (r"(?:model\.)?layers\.N\.mlp_norm\.(?P<w>\w+)", r"layers.N.channel_norm.\g<w>"),
    (r"(?:model\.)?layers\.N\.attn\.Wqkv\.(?P<w>\w+)", r"layers.N.attention.qkv_proj.\g<w>"),
    (r"(?:model\.)?layers\.N\.attn\.(?P<m>[qkv])_proj\.(?P<w>\w+)", r"layers.N.attention.\g<m>_proj.\g<w>"),
    (r"(?:model\.)?layers\.N\.attn\.Wo\.(?P<w>\w+)", r"layers.N.attention.o_proj.\g<w>"),
    (r"(?:model\.)?layers\.N\.mlp\.Wi\.(?P<w>\w+)", r"layers.N.mlp.gate_up_proj.\g<w>"),
    (r"(?:model\.)?layers\.N\.mlp\.Wo\.(?P<w>\w+)", r"layers.N.mlp.down_proj.\g<w>"),
    (r"(?:model\.)?final_norm\.(?P<w>\w+)", r"final_norm.\g<w>"),
    (r"decoder\.(?P<w>\w+)", r"lm_head.\g<w>"),
)
MODERNBERT += (
    (r"(?:lm_)?head\.dense\.(?P<w>\w+)", (r"lm_head.transform.\g<w>", r"dense.dense.\g<w>")),
    (r"(?:lm_)?head\.norm\.(?P<w>\w+)", (r"lm_head.transform_norm.\g<w>", r"dense.norm.\g<w>")),
    (r"classifier\.(?P<w>\w+)", (r"classifier.dense.\g<w>", r"span.dense.\g<w>")),
)
_ROTARY_LAYER = _one(
    (r"(?:.*\.)?layers\.N\.self_attn\.(?P<m>[qkvo])_proj\.(?P<w>\w+)", r"layers.N.attention.\g<m>_proj.\g<w>"),
    (r"(?:.*\.)?layers\.N\.post_attention_layernorm\.(?P<w>\w+)", r"layers.N.attention_norm.\g<w>"),
    (r"(?:.*\.)?layers\.N\.post_mlp_layernorm\.(?P<w>\w+)", r"layers.N.channel_norm.\g<w>"),
    (r"(?:.*\.)?layers\.N\.mlp\.(?P<m>gate|up|down)_proj\.(?P<w>\w+)", r"layers.N.mlp.\g<m>_proj.\g<w>"),
    (r"(?:.*\.)?layers\.N\.mlp\.fc1\.(?P<w>\w+)", r"layers.N.mlp.up_proj.\g<w>"),
    (r"(?:.*\.)?layers\.N\.mlp\.fc2\.(?P<w>\w+)", r"layers.N.mlp.down_proj.\g<w>"),
)
JINA = _ROTARY_LAYER + ROBERTA
NOMIC = _ROTARY_LAYER + BERT
NOMIC += _one((r"cls\.predictions\.transform\.layer_norm\.(?P<w>\w+)", r"lm_head.transform_norm.\g<w>"))
GTE = _ROTARY_LAYER + _TABLES + _HEADS
GTE += _one(
    (r"lm_head\.decoder\.(?P<w>\w+)", r"lm_head.\g<w>"),
    (r"lm_head\.dense\.(?P<w>\w+)", r"lm_head.transform.\g<w>"),
    (r"lm_head\.layer_norm\.(?P<w>\w+)", r"lm_head.transform_norm.\g<w>"),
)
EUROBERT = _one(
    (r"(?:model\.)?embed_tokens\.weight", "embedding.token.weight"),
    (r"(?:model\.)?layers\.N\.input_layernorm\.weight", "layers.N.attention_norm.weight"),
    (r"(?:model\.)?layers\.N\.post_attention_layernorm\.weight", "layers.N.channel_norm.weight"),
    (r"(?:model\.)?norm\.weight", "final_norm.weight"),
    (r"lm_head\.(?P<w>\w+)", r"lm_head.\g<w>"),
    (r"dense\.(?P<w>\w+)", r"dense.dense.\g<w>"),
)
EUROBERT += _ROTARY_LAYER + _HEADS
_GEMMA2 = (
    (r"self_attn\.(?P<m>[qkvo])_proj", r"attention.\g<m>_proj"),
    (r"cross_attn\.(?P<m>[qkvo])_proj", r"cross_attention.\g<m>_proj"),
    (r"mlp\.(?P<m>gate|up|down)_proj", r"mlp.\g<m>_proj"),
    *(
        (rf"{theirs}_{name}_layernorm", f"{ours}_{ending}")
        for name, ours in (("self_attn", "attention"), ("cross_attn", "cross_attention"), ("feedforward", "channel"))
        for theirs, ending in (("pre", "norm"), ("post", "post_norm"))
    ),
)
T5GEMMA = _one(
    *(
        (rf"(?:model\.)?{side}\.layers\.N\.{theirs}\.(?P<w>\w+)", rf"{inner}layers.N.{ours}.\g<w>")
        for side, inner in (("encoder", "encoder."), ("decoder", ""))
        for theirs, ours in _GEMMA2
    ),
    (r"(?:model\.)?encoder\.embed_tokens\.weight", "encoder.embedding.token.weight"),
    (r"(?:model\.)?decoder\.embed_tokens\.weight", "embedding.token.weight"),
    (r"(?:model\.)?encoder\.norm\.weight", "encoder.final_norm.weight"),
    (r"(?:model\.)?decoder\.norm\.weight", "final_norm.weight"),
    (r"lm_head\.out_proj\.weight", "lm_head.weight"),
)
T5GEMMA2 = _one(
    *(
        (rf"(?:model\.)?{side}\.layers\.N\.{theirs}\.(?P<w>\w+)", rf"{inner}layers.N.{ours}.\g<w>")
        for side, inner in ((r"encoder\.text_model", "encoder."), ("decoder", ""))
        for theirs, ours in (*_GEMMA2, (r"self_attn\.(?P<p>[qk]_norm)", r"attention.\g<p>"))
    ),
    (r"(?:model\.)?encoder\.text_model\.embed_tokens\.weight", "embedding.token.weight"),
    (r"(?:model\.)?encoder\.text_model\.embed_tokens\.eoi_embedding", "embedding.own.weight"),
    (r"(?:model\.)?encoder\.text_model\.norm\.weight", "encoder.final_norm.weight"),
    (r"(?:model\.)?decoder\.norm\.weight", "final_norm.weight"),
)
ESM = _one(
    (r"(?:.*\.)?layer\.N\.attention\.LayerNorm\.(?P<w>\w+)", r"layers.N.attention_norm.\g<w>"),
    (r"(?:.*\.)?layer\.N\.LayerNorm\.(?P<w>\w+)", r"layers.N.channel_norm.\g<w>"),
    (r"(?:.*\.)?emb_layer_norm_after\.(?P<w>\w+)", r"final_norm.\g<w>"),
    (r"(?:.*\.)?embeddings\.layer_norm\.(?P<w>\w+)", r"embedding.norm.\g<w>"),
    (r"(?:.*\.)?contact_head\.regression\.(?P<w>\w+)", r"contacts.dense.\g<w>"),
    (r"lm_head\.decoder\.weight", "lm_head.weight"),
)
ESM += ROBERTA
_MPNET = r"(?:.*\.)?layer\.N\.attention\."
MPNET = _one(
    (_MPNET + r"attn\.(?P<m>[qkvo])\.(?P<w>\w+)", r"layers.N.attention.\g<m>_proj.\g<w>"),
    (_MPNET + r"LayerNorm\.(?P<w>\w+)", r"layers.N.attention_norm.\g<w>"),
    (r"(?:.*\.)?relative_attention_bias\.weight", "relative_bias.weight"),
)
MPNET += ROBERTA
ROFORMER = _one(
    (r"(?:.*\.)?embed_positions\.weight", "embedding.angles.weight"),
    (r"(?:.*\.)?embeddings_project\.(?P<w>\w+)", r"embedding.project_in.\g<w>"),
)
ROFORMER += _OWN_CLASSIFIER + BERT
_CONVBERT = r"(?:.*\.)?layer\.N\.attention\.self\."
CONVBERT = _one(
    (_CONVBERT + r"key_conv_attn_layer\.depthwise\.weight", "layers.N.attention.span_depthwise.weight"),
    (_CONVBERT + r"key_conv_attn_layer\.pointwise\.weight", "layers.N.attention.span_pointwise.weight"),
    (_CONVBERT + r"key_conv_attn_layer\.bias", "layers.N.attention.span_pointwise.bias"),
    (_CONVBERT + r"conv_kernel_layer\.(?P<w>\w+)", r"layers.N.attention.span_weights.\g<w>"),
    (_CONVBERT + r"conv_out_layer\.(?P<w>\w+)", r"layers.N.attention.span_values.\g<w>"),
)
_XLNET = r"(?:transformer\.)?layer\.N\."
XLNET = _one(
    (r"(?:transformer\.)?mask_emb", "masked.dense.weight"),
    (r"(?:transformer\.)?word_embedding\.weight", "embedding.token.weight"),
    (_XLNET + r"rel_attn\.(?P<m>[qkvo])", r"layers.N.attention.\g<m>_proj.weight"),
    *(
        (_XLNET + rf"{theirs}", f"layers.N.attention.{ours}")
        for theirs, ours in (
            (r"rel_attn\.r", "pos_proj.weight"),
            (r"rel_attn\.r_w_bias", "pos_bias_u"),
            (r"rel_attn\.r_r_bias", "pos_bias_v"),
            (r"rel_attn\.r_s_bias", "segment_bias"),
            (r"rel_attn\.seg_embed", "segment_vectors"),
        )
    ),
    (_XLNET + r"rel_attn\.layer_norm\.(?P<w>\w+)", r"layers.N.attention_norm.\g<w>"),
    (_XLNET + r"ff\.layer_norm\.(?P<w>\w+)", r"layers.N.channel_norm.\g<w>"),
    (_XLNET + r"ff\.layer_1\.(?P<w>\w+)", r"layers.N.mlp.up_proj.\g<w>"),
    (_XLNET + r"ff\.layer_2\.(?P<w>\w+)", r"layers.N.mlp.down_proj.\g<w>"),
    (r"lm_loss\.(?P<w>\w+)", r"lm_head.\g<w>"),
    (r"sequence_summary\.summary\.(?P<w>\w+)", r"dense.dense.\g<w>"),
    (r"logits_proj\.(?P<w>\w+)", r"classifier.dense.\g<w>"),
)
XLNET += _HEADS
_FUNNEL = {
    **{rf"attention\.{m}_head": f"attention.{m}_proj" for m in "qkv"},
    r"attention\.post_proj": "attention.o_proj",
    r"attention\.layer_norm": "attention_norm",
    r"ffn\.linear_1": "mlp.up_proj",
    r"ffn\.linear_2": "mlp.down_proj",
    r"ffn\.layer_norm": "channel_norm",
}
_FUNNEL_OWN = {
    "r_w_bias": "pos_bias_u",
    "r_r_bias": "pos_bias_v",
    "r_kernel": "pos_proj.weight",
    "r_s_bias": "segment_bias",
    "seg_embed": "segment_vectors",
}
_FUNNEL_LAYERS = {
    r"(?:funnel\.)?(?:encoder\.blocks\.\d+|decoder\.layers)\.\d+\.": "layers.*.",
    r"passed\.N\.": "layers.N.",
}
FUNNEL = _one(
    *(
        rule
        for outer, inner in _FUNNEL_LAYERS.items()
        for rule in (
            *((rf"{outer}{theirs}(?P<w>\.\w+)", rf"{inner}{ours}\g<w>") for theirs, ours in _FUNNEL.items()),
            *((rf"{outer}attention\.{theirs}", f"{inner}attention.{ours}") for theirs, ours in _FUNNEL_OWN.items()),
        )
    ),
    (r"(?:funnel\.)?embeddings\.layer_norm\.(?P<w>\w+)", r"embedding.norm.\g<w>"),
    (r"lm_head\.(?P<w>\w+)", r"lm_head.\g<w>"),
    (r"discriminator_predictions\.dense\.(?P<w>\w+)", r"dense.dense.\g<w>"),
    (r"discriminator_predictions\.dense_prediction\.(?P<w>\w+)", r"replaced.dense.\g<w>"),
    (r"classifier\.linear_hidden\.(?P<w>\w+)", r"dense.dense.\g<w>"),
    (r"classifier\.linear_out\.(?P<w>\w+)", r"classifier.dense.\g<w>"),
)
FUNNEL += _TABLES + _HEADS
DEBERTA = _one(
    *(
        (rf"(?:.*\.)?layer\.N\.attention\.self\.{theirs}\.(?P<w>\w+)", rf"layers.N.attention.{ours}.\g<w>")
        for theirs, ours in (
            *(("query_proj", "q_proj"), ("key_proj", "k_proj"), ("value_proj", "v_proj")),
            *(("pos_key_proj", "pos_k_proj"), ("pos_query_proj", "pos_q_proj")),
        )
    ),
    (r"(?:.*\.)?encoder\.conv\.conv\.(?P<w>\w+)", r"layers.0.beside.convolution.\g<w>"),
    (r"(?:.*\.)?encoder\.conv\.LayerNorm\.(?P<w>\w+)", r"layers.0.beside_norm.\g<w>"),
    (r"lm_predictions\.lm_head\.bias", "lm_head.bias"),
    (r"lm_predictions\.lm_head\.dense\.(?P<w>\w+)", r"lm_head.transform.\g<w>"),
    (r"lm_predictions\.lm_head\.LayerNorm\.(?P<w>\w+)", r"lm_head.transform_norm.\g<w>"),
    (r"(?:.*\.)?rel_embeddings\.weight", "distances.weight"),
    (r"(?:.*\.)?encoder\.LayerNorm\.(?P<w>\w+)", r"distances_norm.\g<w>"),
)
DEBERTA += BERT
_DEBERTA_1 = r"(?:.*\.)?layer\.N\.attention\.self\."
DEBERTA_1 = _one(
    (_DEBERTA_1 + r"(?P<m>[qv])_bias", r"layers.N.attention.\g<m>_proj.bias"),
    (_DEBERTA_1 + r"pos_proj\.weight", "layers.N.attention.pos_k_proj.weight"),
    (_DEBERTA_1 + r"pos_q_proj\.(?P<w>\w+)", r"layers.N.attention.pos_q_proj.\g<w>"),
)
DEBERTA_1 += ((_DEBERTA_1 + r"in_proj\.weight", tuple(f"layers.N.attention.{m}_proj.weight" for m in "qkv")), *DEBERTA)
ELECTRA = _TABLES + _BERT_LAYER + _HEADS + _OWN_CLASSIFIER
ELECTRA += _one(
    (r"(?:.*\.)?embeddings_project\.(?P<w>\w+)", r"embedding.project_in.\g<w>"),
    (r"generator_predictions\.dense\.(?P<w>\w+)", r"lm_head.transform.\g<w>"),
    (r"generator_predictions\.LayerNorm\.(?P<w>\w+)", r"lm_head.transform_norm.\g<w>"),
    (r"generator_lm_head\.(?P<w>\w+)", r"lm_head.\g<w>"),
    (r"discriminator_predictions\.dense\.(?P<w>\w+)", r"dense.dense.\g<w>"),
    (r"discriminator_predictions\.dense_prediction\.(?P<w>\w+)", r"replaced.dense.\g<w>"),
    (r"sequence_summary\.summary\.(?P<w>\w+)", r"dense.dense.\g<w>"),
)
CONVBERT += ELECTRA
DISTILBERT = _TABLES + _HEADS
DISTILBERT += _one(
    (r"(?:.*\.)?layer\.N\.attention\.(?P<m>[qkv])_lin\.(?P<w>\w+)", r"layers.N.attention.\g<m>_proj.\g<w>"),
    (r"(?:.*\.)?layer\.N\.attention\.out_lin\.(?P<w>\w+)", r"layers.N.attention.o_proj.\g<w>"),
    (r"(?:.*\.)?layer\.N\.sa_layer_norm\.(?P<w>\w+)", r"layers.N.attention_norm.\g<w>"),
    (r"(?:.*\.)?layer\.N\.output_layer_norm\.(?P<w>\w+)", r"layers.N.channel_norm.\g<w>"),
    (r"(?:.*\.)?layer\.N\.ffn\.lin1\.(?P<w>\w+)", r"layers.N.mlp.up_proj.\g<w>"),
    (r"(?:.*\.)?layer\.N\.ffn\.lin2\.(?P<w>\w+)", r"layers.N.mlp.down_proj.\g<w>"),
    (r"vocab_transform\.(?P<w>\w+)", r"lm_head.transform.\g<w>"),
    (r"vocab_layer_norm\.(?P<w>\w+)", r"lm_head.transform_norm.\g<w>"),
    (r"vocab_projector\.(?P<w>\w+)", r"lm_head.\g<w>"),
    (r"pre_classifier\.(?P<w>\w+)", r"dense.dense.\g<w>"),
)
_ALBERT = r"(?:.*\.)?albert_layer_groups\.N\.albert_layers\.(?:0|\{\})\."
ALBERT = _TABLES + _HEADS
ALBERT += _one(
    (r"(?:.*\.)?embedding_hidden_mapping_in\.(?P<w>\w+)", r"embedding.project_in.\g<w>"),
    (_ALBERT + r"attention\.query\.(?P<w>\w+)", r"layers.N.attention.q_proj.\g<w>"),
    (_ALBERT + r"attention\.key\.(?P<w>\w+)", r"layers.N.attention.k_proj.\g<w>"),
    (_ALBERT + r"attention\.value\.(?P<w>\w+)", r"layers.N.attention.v_proj.\g<w>"),
    (_ALBERT + r"attention\.dense\.(?P<w>\w+)", r"layers.N.attention.o_proj.\g<w>"),
    (_ALBERT + r"attention\.LayerNorm\.(?P<w>\w+)", r"layers.N.attention_norm.\g<w>"),
    (_ALBERT + r"full_layer_layer_norm\.(?P<w>\w+)", r"layers.N.channel_norm.\g<w>"),
    (_ALBERT + r"ffn\.(?P<w>\w+)", r"layers.N.mlp.up_proj.\g<w>"),
    (_ALBERT + r"ffn_output\.(?P<w>\w+)", r"layers.N.mlp.down_proj.\g<w>"),
    (r"predictions\.bias", "lm_head.bias"),
    (r"predictions\.dense\.(?P<w>\w+)", r"lm_head.transform.\g<w>"),
    (r"predictions\.LayerNorm\.(?P<w>\w+)", r"lm_head.transform_norm.\g<w>"),
    (r"sop_classifier\.classifier\.(?P<w>\w+)", r"classifier.dense.\g<w>"),
)
"""One set of shared weights; where there are several, a group's number is not that of its first layer."""

_NORM = "layers.N.attention_norm.weight"
_CROSS_NORM = "layers.N.cross_attention_norm.weight"
_CHANNEL_NORM = "layers.N.channel_norm.weight"
_E, _D = r"(?:.*\.)?encoder\.block\.N\.layer\.", r"(?:.*\.)?decoder\.block\.N\.layer\."
_SUB = r"(?:\d|\{\})\."
T5: Rules = (
    (r"(?:.*\.)?shared\.weight", ("embedding.token.weight",)),
    (r"lm_head\.weight", ("lm_head.weight",)),
    (r"(?:.*\.)?encoder\.final_layer_norm\.weight", ("encoder.final_norm.weight",)),
    (r"(?:.*\.)?decoder\.final_layer_norm\.weight", ("final_norm.weight",)),
    (_E + r"0\.layer_norm\.weight", (f"encoder.{_NORM}",)),
    (_E + r"1\.layer_norm\.weight", (f"encoder.{_CHANNEL_NORM}",)),
    (_E + r"\{\}\.layer_norm\.weight", (f"encoder.{_NORM}", f"encoder.{_CHANNEL_NORM}")),
    (_D + r"0\.layer_norm\.weight", (_NORM,)),
    (_D + r"1\.layer_norm\.weight", (_CROSS_NORM,)),
    (_D + r"2\.layer_norm\.weight", (_CHANNEL_NORM,)),
    (_D + r"\{\}\.layer_norm\.weight", (_NORM, _CROSS_NORM, _CHANNEL_NORM)),
)
for _side, _ours in ((_E, "encoder."), (_D, "")):
    T5 += _one(
        (_side + _SUB + r"SelfAttention\.(?P<m>[qkvo])\.weight", rf"{_ours}layers.N.attention.\g<m>_proj.weight"),
        (_side + _SUB + r"EncDecAttention\.(?P<m>[qkvo])\.weight", r"layers.N.cross_attention.\g<m>_proj.weight"),
        (_side + _SUB + r"(?:DenseReluDense|mlp)\.(?:wi|wi_1)\.weight", f"{_ours}layers.N.mlp.up_proj.weight"),
        (_side + _SUB + r"DenseReluDense\.wi_0\.weight", f"{_ours}layers.N.mlp.gate_proj.weight"),
        (_side + _SUB + r"(?:DenseReluDense|mlp)\.wo\.weight", f"{_ours}layers.N.mlp.down_proj.weight"),
        (_side + _SUB + r"mlp\.router\.classifier\.(?P<w>\w+)", rf"{_ours}layers.N.moe.router.\g<w>"),
        (_side + _SUB + r"mlp\.experts\.expert_\d+\.wi\.weight", f"{_ours}layers.N.moe.experts.*.up_proj.weight"),
        (_side + _SUB + r"mlp\.experts\.expert_\d+\.wo\.weight", f"{_ours}layers.N.moe.experts.*.down_proj.weight"),
    )
_TABLE = r"SelfAttention\.relative_attention_bias\.weight"
UMT5 = T5 + _one(
    (_E + _SUB + _TABLE, "encoder.layers.N.attention.relative_bias.weight"),
    (_D + _SUB + _TABLE, "layers.N.attention.relative_bias.weight"),
)
T5 += _one(
    (_E + _SUB + _TABLE, "encoder.relative_bias.weight"),
    (_D + _SUB + _TABLE, "relative_bias.weight"),
)
_IN_BLOCKS = _E + _SUB + r"(?:Local|TransientGlobal)SelfAttention\."
LONGT5 = T5 + _one(
    (_IN_BLOCKS + r"(?P<m>[qkvo])\.weight", r"encoder.layers.N.attention.\g<m>_proj.weight"),
    (_IN_BLOCKS + r"global_input_layer_norm\.weight", "encoder.layers.N.attention.sum_norm.weight"),
    (_IN_BLOCKS + r"relative_attention_bias\.weight", "encoder.relative_bias.weight"),
    (_IN_BLOCKS + r"global_relative_attention_bias\.weight", "encoder.summary_bias.weight"),
)
T5_HEADS = _OWN_CLASSIFIER + _HEADS

BART = _HEADS + _OWN_CLASSIFIER + _one((r"(?:model\.)?shared\.weight", "embedding.token.weight"))
for _name, _ours in (("encoder", "encoder."), ("decoder", "")):
    _side = rf"(?:model\.)?{_name}\."
    _layer = _side + r"layers\.N\."
    BART += _one(
        (_side + r"embed_positions\.weight", f"{_ours}embedding.position.weight"),
        (_side + r"layer_norm\.(?P<w>\w+)", rf"{_ours}final_norm.\g<w>"),
        (_side + r"layernorm_embedding\.(?P<w>\w+)", rf"{_ours}embedding.norm.\g<w>"),
        (
            _side + r"layers\.N\.self_attn\.(?P<m>[qkv])_proj\.(?P<w>\w+)",
            rf"{_ours}layers.N.attention.\g<m>_proj.\g<w>",
        ),
        (_layer + r"self_attn\.out_proj\.(?P<w>\w+)", rf"{_ours}layers.N.attention.o_proj.\g<w>"),
        (
            _side + r"layers\.N\.(?:encoder_attn|cross_attention)\.(?P<m>[qkv])_proj\.(?P<w>\w+)",
            r"layers.N.cross_attention.\g<m>_proj.\g<w>",
        ),
        (_layer + r"(?:encoder_attn|cross_attention)\.out_proj\.(?P<w>\w+)", r"layers.N.cross_attention.o_proj.\g<w>"),
        (_layer + r"self_attn_layer_norm\.(?P<w>\w+)", rf"{_ours}layers.N.attention_norm.\g<w>"),
        (_layer + r"(?:encoder_attn|cross_attention)_layer_norm\.(?P<w>\w+)", r"layers.N.cross_attention_norm.\g<w>"),
        (_layer + r"(?:final|ff|ffn)_layer_norm\.(?P<w>\w+)", rf"{_ours}layers.N.channel_norm.\g<w>"),
        (_layer + r"(?:ffn\.)?fc1\.(?P<w>\w+)", rf"{_ours}layers.N.mlp.up_proj.\g<w>"),
        (_layer + r"(?:ffn\.)?fc2\.(?P<w>\w+)", rf"{_ours}layers.N.mlp.down_proj.\g<w>"),
        (_layer + r"ffn\.router\.classifier\.(?P<w>\w+)", rf"{_ours}layers.N.moe.router.\g<w>"),
        (_layer + r"ffn\.experts\.expert_\d+\.fc1\.(?P<w>\w+)", rf"{_ours}layers.N.moe.experts.*.up_proj.\g<w>"),
        (_layer + r"ffn\.experts\.expert_\d+\.fc2\.(?P<w>\w+)", rf"{_ours}layers.N.moe.experts.*.down_proj.\g<w>"),
    )
SEAMLESS: Rules = tuple(
    (theirs.replace("encoder\\.", "text_encoder\\.").replace("decoder\\.", "text_decoder\\."), ours)
    for theirs, ours in BART
)

_BAND = r"(?:.*\.)?encoder\.layers\.N\.self_attn\."
_IN_BAND = _BAND + r"longformer_self_attn\.(?P<m>[qkv])(?:uery|ey|alue)"
LED = _one(
    (_IN_BAND + r"\.(?P<w>\w+)", r"encoder.layers.N.attention.\g<m>_proj.\g<w>"),
    (_IN_BAND + r"_global\.(?P<w>\w+)", r"encoder.layers.N.attention.\g<m>_global.\g<w>"),
    (_BAND + r"output\.(?P<w>\w+)", r"encoder.layers.N.attention.o_proj.\g<w>"),
    *((pattern.replace(r"(?:model\.)?", r"(?:led\.|model\.)?"), ours[0]) for pattern, ours in BART),
)

_GPT2 = _one(
    (r"(?:.*\.)?h\.N\.ln_1\.(?P<w>\w+)", r"layers.N.attention_norm.\g<w>"),
    (r"(?:.*\.)?h\.N\.ln_2\.(?P<w>\w+)", r"layers.N.channel_norm.\g<w>"),
    (r"(?:.*\.)?h\.N\.attn\.c_attn\.(?P<w>\w+)", r"layers.N.attention.qkv_proj.\g<w>"),
    (r"(?:.*\.)?h\.N\.attn\.c_proj\.(?P<w>\w+)", r"layers.N.attention.o_proj.\g<w>"),
    (r"(?:.*\.)?h\.N\.mlp\.c_fc\.(?P<w>\w+)", r"layers.N.mlp.up_proj.\g<w>"),
    (r"(?:.*\.)?h\.N\.mlp\.c_proj\.(?P<w>\w+)", r"layers.N.mlp.down_proj.\g<w>"),
    (r"(?:.*\.)?wte\.weight", "embedding.token.weight"),
    (r"(?:.*\.)?wpe\.weight", "embedding.position.weight"),
    (r"(?:.*\.)?ln_f\.(?P<w>\w+)", r"final_norm.\g<w>"),
)
GPT = _GPT2 + _one(
    (r"(?:.*\.)?tokens_embed\.weight", "embedding.token.weight"),
    (r"(?:.*\.)?positions_embed\.weight", "embedding.position.weight"),
    (r"lm_head\.weight", "lm_head.weight"),
)
IMAGEGPT = _GPT2 + _one((r"lm_head\.weight", "lm_head.weight"), (r"score\.weight", "classifier.dense.weight"))
TRAJECTORY = _GPT2 + _one(
    (r"embed_timestep\.weight", "embedding.step.weight"),
    (r"embed_ln\.(?P<w>\w+)", r"embedding.norm.\g<w>"),
    (r"embed_(?P<m>return|state|action)\.(?P<w>\w+)", r"embedding.\g<m>.\g<w>"),
    (r"(?P<m>predict_\w+?)(?:\.0)?\.(?P<w>\w+)", r"\g<m>.dense.\g<w>"),
)

RWKV = _one(
    (r"rwkv\.embeddings\.weight", "embedding.token.weight"),
    (r"rwkv\.blocks\.0\.pre_ln\.(?P<w>\w+)", r"embedding.norm.\g<w>"),
    (r"rwkv\.blocks\.N\.ln1\.(?P<w>\w+)", r"layers.N.rwkv4_norm.\g<w>"),
    (r"rwkv\.blocks\.N\.ln2\.(?P<w>\w+)", r"layers.N.channel_norm.\g<w>"),
    (r"rwkv\.blocks\.N\.attention\.time_(?P<w>decay|first)", r"layers.N.rwkv4.\g<w>"),
    (r"rwkv\.blocks\.N\.attention\.time_mix_(?P<w>[kvr])\w+", r"layers.N.rwkv4.mix_\g<w>"),
    (r"rwkv\.blocks\.N\.attention\.output\.weight", "layers.N.rwkv4.o_proj.weight"),
    (r"rwkv\.blocks\.N\.attention\.(?P<w>[kvr])\w+\.weight", r"layers.N.rwkv4.\g<w>_proj.weight"),
    (r"rwkv\.blocks\.N\.feed_forward\.time_mix_key", "layers.N.mlp.mix"),
    (r"rwkv\.blocks\.N\.feed_forward\.time_mix_receptance", "layers.N.mlp.mix_receptance"),
    (r"rwkv\.blocks\.N\.feed_forward\.key\.weight", "layers.N.mlp.up_proj.weight"),
    (r"rwkv\.blocks\.N\.feed_forward\.value\.weight", "layers.N.mlp.down_proj.weight"),
    (r"rwkv\.blocks\.N\.feed_forward\.receptance\.weight", "layers.N.mlp.receptance_proj.weight"),
    (r"rwkv\.ln_out\.(?P<w>\w+)", r"final_norm.\g<w>"),
    (r"head\.weight", "lm_head.weight"),
)

LAYOUTLMV3 = _one(
    (r"(?:layoutlmv3\.)?embeddings\.x_position_embeddings\.weight", "embedding.across.weight"),
    (r"(?:layoutlmv3\.)?embeddings\.y_position_embeddings\.weight", "embedding.down.weight"),
    (r"(?:layoutlmv3\.)?embeddings\.h_position_embeddings\.weight", "embedding.tall.weight"),
    (r"(?:layoutlmv3\.)?embeddings\.w_position_embeddings\.weight", "embedding.wide.weight"),
    (r"(?:layoutlmv3\.)?patch_embed\.proj\.(?P<w>\w+)", r"embedding.picture.patch.\g<w>"),
    (r"(?:layoutlmv3\.)?cls_token", "embedding.picture.special.weight"),
    (r"(?:layoutlmv3\.)?pos_embed", "embedding.picture.position.weight"),
    (r"(?:layoutlmv3\.)?norm\.(?P<w>\w+)", r"embedding.picture.norm.\g<w>"),
    (r"(?:layoutlmv3\.)?LayerNorm\.(?P<w>\w+)", r"embedding.page_norm.\g<w>"),
    (r"(?:layoutlmv3\.)?encoder\.rel_pos_bias\.weight", "relative_bias.weight"),
    (r"(?:layoutlmv3\.)?encoder\.rel_pos_x_bias\.weight", "across_bias.weight"),
    (r"(?:layoutlmv3\.)?encoder\.rel_pos_y_bias\.weight", "down_bias.weight"),
    (r"qa_outputs\.dense\.(?P<w>\w+)", r"dense.dense.\g<w>"),
    (r"qa_outputs\.out_proj\.(?P<w>\w+)", r"span.dense.\g<w>"),
)
LAYOUTLMV3 += _TABLES + _BERT_LAYER + _OWN_CLASSIFIER + _HEADS
RULES: dict[str, Rules] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "data2vec-text": ROBERTA,
    "xlm-roberta-xl": _NORMS_BEFORE + ROBERTA,
    "roberta-prelayernorm": _NORMS_INSIDE + ROBERTA,
    "megatron-bert": _NORMS_BEFORE + BERT,
    "modernbert": MODERNBERT,
    "modernbert-decoder": MODERNBERT,
    "jina_embeddings_v3": JINA,
    "gte": GTE,
    "nomic_bert": NOMIC,
    "eurobert": EUROBERT,
    "mpnet": MPNET,
    "roformer": ROFORMER,
    "convbert": CONVBERT,
    "xlnet": XLNET,
    "funnel": FUNNEL,
    "deberta": DEBERTA_1,
    "deberta-v2": DEBERTA,
    "t5gemma": T5GEMMA,
    "t5gemma2": T5GEMMA2,
    "esm": ESM,
    "electra": ELECTRA,
    "distilbert": DISTILBERT,
    "albert": ALBERT,
    "t5": T5 + T5_HEADS,
    "mt5": T5 + T5_HEADS,
    "umt5": UMT5 + T5_HEADS,
    "longt5": LONGT5,
    "switch_transformers": T5,
    **dict.fromkeys(("bart", "mbart", "mvp", "plbart", "pegasus", "marian", "m2m_100", "blenderbot"), BART),
    "blenderbot-small": BART,
    "nllb-moe": BART,
    **dict.fromkeys(("seamless_m4t", "seamless_m4t_v2"), SEAMLESS),
    "led": LED,
    "longformer": LONGFORMER,
    "big_bird": BIG_BIRD,
    "layoutlmv3": LAYOUTLMV3,
    "rwkv": RWKV,
    "openai-gpt": GPT,
    "imagegpt": IMAGEGPT,
    "decision_transformer": TRAJECTORY,
}


def rename(name: str, rules: Rules) -> tuple[str, ...] | None:
    """Our paths of the tensor that transformers calls `name`, or None where no rule knows it."""
    for pattern, ours in rules:
        if found := re.fullmatch(pattern.replace(r"\.N\.", rf"\.{NUMBER}\."), name):
            number = found.groupdict().get("n") or ""
            return tuple(found.expand(path).replace(".N.", f".{number}.") for path in ours)
    return None
