"""Models that see, and the language models inside them, against transformers' own classes of the same config, small.

Counted there: elements of each parameter, FLOPs of matrix products and convolutions of the text and, apart, of the
tower with its projector over pictures, bytes of the cache, and the FLOPs of one more token.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward  # noqa: E402
from calc.quantities.parameters import by_tower, parameter_shapes, parameters  # noqa: E402
from calc.spec import Head, ModelSpec  # noqa: E402
from calc.spec.load import Load, Scores  # noqa: E402
from calc.spec.resizing import sizes_of, symbolic, with_sizes  # noqa: E402
from harness.counter import count  # noqa: E402
from tests.architectures.cases_recurrent import RECURRENT  # noqa: E402
from tests.architectures.cases_vision import GEMMA4, KIMI, SEEING, inside  # noqa: E402
from tests.architectures.renaming import compare  # noqa: E402
from tests.architectures.renaming_vision import TOWER  # noqa: E402
from tests.architectures.text_beside_tower import BATCH, SEQ, hold_text  # noqa: E402
from tests.test_three_readings import everything, numbers_in  # noqa: E402

IMAGES = 3
TILED = ("llava_next", "llava_onevision")
"""Families whose pictures are a small one of the whole and the tiles that a larger one is cut into."""
CASES = [(model_type, config) for model_type, configs in SEEING.items() for config in configs]


def build(model_type: str, config: dict[str, Any]) -> Any:
    """transformers' model on the CPU: where pictures and experts go depends on values."""
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
    text = {"text_config": special | config["text_config"]} if "text_config" in config else special
    parsed = transformers.AutoConfig.for_model(model_type, **(config | text))
    auto = transformers.AutoModelForImageTextToText if "vision_config" in config else transformers.AutoModelForCausalLM
    torch.manual_seed(0)
    return auto.from_config(parsed, attn_implementation="eager", experts_implementation="batched_mm").eval()


def pictures(spec: ModelSpec, model_type: str) -> tuple[Any, ...]:
    """IMAGES pictures of the tower's own size, as `get_image_features` of the family takes them."""
    front = spec.vision.embedding
    rows, columns = front.height // front.patch_height, front.width // front.patch_width
    pixels = front.channels * front.frames * front.patch_height * front.patch_width
    if model_type == "lfm2_vl":
        return cut(torch.randn(IMAGES, front.channels, front.height, front.width), front.patch_height)
    if model_type.startswith(("qwen", "kimi", "glm")):
        grid = torch.tensor([[1, rows, columns]] * IMAGES)
        shape = (pixels,) if not model_type.startswith("kimi") else (3, front.patch_height, front.patch_width)
        return torch.randn(IMAGES * rows * columns, *shape), grid
    if model_type == "gemma4":
        places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).flip(-1)
        return torch.rand(IMAGES, rows * columns, pixels), places.expand(IMAGES, -1, -1)
    shape = (IMAGES, front.channels, front.height, front.width)
    if model_type in ("idefics3", "smolvlm"):
        return (torch.randn(*shape)[None],)
    if model_type in ("mistral3", "mistral_large4"):
        return torch.randn(*shape), torch.tensor([shape[2:]] * IMAGES)
    if model_type in TILED:
        return torch.randn(1, *shape), torch.tensor([[front.height, (IMAGES - 1) * front.width]])
    return (torch.randn(*shape),)


def cut(pixels: Any, patch: int) -> tuple[Any, Any, Any]:
    """Pictures as SigLIP 2 reads them: patches row by row, each with all channels of a pixel side by side."""
    patches = pixels.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    flat = patches.flatten(1, 2).flatten(2)
    return flat, torch.tensor([patches.shape[1:3]] * len(pixels)), torch.ones(flat.shape[:2], dtype=torch.long)


def see(model: Any, *inputs: Any) -> None:
    """Run the tower and what brings its vectors to the text; Llama 4's last matrix stands outside its own method.

    Pixtral's pictures go in one by one: of several it multiplies all patches with all, and hides those of the others.
    """
    if model.config.vision_config.model_type == "pixtral":
        for each in zip(*inputs, strict=True):
            model.get_image_features(*(given[None] for given in each))
        return
    found = model.get_image_features(*inputs)
    if model.config.model_type == "llama4":
        model.multi_modal_projector(found.last_hidden_state)


def visited_only(counted: int, model: Any, tokens: int) -> int:
    """Llama 4's experts all run on all tokens: the work of those that a token does not visit, taken off `counted`."""
    text = model.config.get_text_config()
    if not text.model_type.startswith("llama4"):
        return counted
    unvisited = text.num_local_experts - text.num_experts_per_tok
    return counted - len(text.moe_layers) * unvisited * tokens * 6 * text.hidden_size * text.intermediate_size


@pytest.mark.parametrize(("model_type", "config"), CASES)
def test_same_as_transformers(model_type: str, config: dict[str, Any]) -> None:
    step = Load(batch=BATCH, seq=1, context=SEQ, decode=True, images=IMAGES)
    hold_text(build(model_type, config), model_type, config, lambda _: step, visited_only)


TWO_PARTS = [case for case in CASES if "vision_config" in case[1]]
OTHERS = [("kimi_k25", KIMI), ("qwen3_5", RECURRENT["qwen3_5"][0])]


@pytest.mark.parametrize(("model_type", "config"), TWO_PARTS + OTHERS)
def test_pictures(model_type: str, config: dict[str, Any]) -> None:
    spec, model = from_config({"model_type": model_type, **config}), build(model_type, config)
    with torch.no_grad():
        seen = count(lambda: see(model, *pictures(spec, model_type)))
    text = Load(batch=BATCH, seq=SEQ)
    with_pictures = Load(batch=BATCH, seq=SEQ, images=IMAGES)
    assert forward(spec, with_pictures).total - forward(spec, text).total == seen
    tower = sum(parameter.numel() for name, parameter in model.named_parameters() if TOWER.fullmatch(name))
    apart = by_tower(parameters(spec), parameters(spec, active=True))
    text_and_ears = apart["text"] + apart.get("audio", 0)
    assert (apart["vision"], text_and_ears) == (tower, sum(p.numel() for p in model.parameters()) - tower)


def test_a_null_gives_all_layers_the_same_sizes() -> None:
    """transformers saves this model without the key, and would then read its defaults back: another model."""
    config = GEMMA4["text_config"] | {"per_layer_config": None}
    theirs = {path: parameter.numel() for path, parameter in build("gemma4_text", config).named_parameters()}
    spec = from_config({"model_type": "gemma4_text", **config})
    assert compare(theirs, {path: prod(s) for path, s in parameter_shapes(spec).items()}, "gemma4_text") == {}


def test_gemma4_without_a_tower_is_its_text() -> None:
    alone = from_config({"model_type": "gemma4_text", **GEMMA4["text_config"]})
    for config in (GEMMA4 | {"vision_config": None}, {"text_config": GEMMA4["text_config"]}):
        spec = from_config({"model_type": "gemma4", **config})
        assert spec.vision is None
        assert by_tower(parameters(spec), parameters(spec, active=True)) == {}
        assert parameter_shapes(spec) == parameter_shapes(alone)


def test_the_language_model_of_mistral_large_4_alone_has_no_head() -> None:
    text = SEEING["mistral_large4"][1]["text_config"]
    config = transformers.AutoConfig.for_model(**({"pad_token_id": 0} | text))
    with torch.device("meta"):
        theirs = transformers.AutoModel.from_config(config)
    spec = from_config(text)
    assert spec.head is None
    ours = {path: prod(shape) for path, shape in parameter_shapes(spec).items()}
    elements = {f"model.{name}": parameter.numel() for name, parameter in theirs.named_parameters()}
    assert compare(elements, ours, "mistral_large4_text") == {}


def test_the_outer_config_ties_the_head() -> None:
    base = {"model_type": "qwen3_vl", **SEEING["qwen3_vl"][0]}
    inner = inside("text_config", base, tie_word_embeddings=True)
    tied = from_config(inner | {"tie_word_embeddings": True})
    untied = from_config(inner | {"tie_word_embeddings": False})
    assert [spec.head and spec.head.tied for spec in (tied, untied)] == [True, False]
    with pytest.raises(Refused):
        from_config(inner)


def test_a_head_that_the_checkpoint_holds_apart() -> None:
    """Where only text_config speaks of tying, transformers 5 ties Mistral's head all the same."""
    base = {"model_type": "mistral3", **SEEING["mistral3"][0]}
    for inner, whose in (({}, "checkpoint"), ({"tie_word_embeddings": True}, "transformers")):
        config = inside("text_config", base, **inner)
        specs = [from_config(config, tying=tying) for tying in ("transformers", "checkpoint")]
        assert [spec.head and spec.head.tied for spec in specs] == [True, bool(inner)]
        assert [any("--tying" in str(note) for note in spec.notes) for spec in specs] == [whose == "checkpoint", False]
        assert all(from_config(config | {"tie_word_embeddings": t}).head == Head(tied=t) for t in (True, False))


PICTURE = Load(images=1, image=(16, 24))


def test_a_picture_of_another_size() -> None:
    """16 x 24 pixels are 4 x 6 patches of 4, which the merger makes 6 vectors for the text."""
    spec = from_config({"model_type": "qwen3_vl", **SEEING["qwen3_vl"][1]})
    assert spec.vision is not None
    d, d_ff, layers, patches = 32, 40, 3, 24
    per_patch = 2 * d * 4 * 4 + layers * (2 * 4 * d * d + 2 * 2 * d * d_ff + 4 * patches * d)
    merger = 6 * (2 * (4 * d) * (4 * d) + 2 * (4 * d) * 64)
    seen = forward(spec, PICTURE).total - forward(spec, Load()).total
    assert seen == patches * per_patch + merger
    with pytest.raises(Refused, match="whole groups of 4"):
        forward(spec, Load(images=1, image=(12, 12)))
    # As many patches as a group has, but side by side: no block of 2 x 2 among them.
    with pytest.raises(Refused, match="whole blocks of 2 x 2 patches"):
        forward(spec, Load(images=1, image=(4, 16)))


def test_a_picture_of_whole_squares() -> None:
    """Layers within squares of 4 x 4 patches, but for one: those of a picture of 32 x 16 pixels, 8 x 4 patches of 4."""
    spec = from_config({"model_type": "qwen2_5_vl", **SEEING["qwen2_5_vl"][0]})
    assert spec.vision is not None
    d, d_ff, patches = 32, 40, 32
    per_patch = 2 * d * 3 * 2 * 4 * 4 + 3 * (2 * 4 * d * d + 3 * 2 * d * d_ff) + 4 * d * (2 * 16 + patches)
    merger = patches // 4 * (2 * (4 * d) * (4 * d) + 2 * (4 * d) * 64)
    seen = forward(spec, Load(images=1, image=(32, 16))).total - forward(spec, Load()).total
    assert seen == patches * per_patch + merger
    with pytest.raises(Refused, match="whole squares of 4 x 4 patches"):
        forward(spec, Load(images=1, image=(24, 16)))


@pytest.mark.parametrize(
    ("model_type", "section", "change", "field"),
    [
        ("gemma3", None, {"vision_config": None}, "vision_config"),
        ("gemma3", None, {"text_config": None}, "text_config"),
        ("gemma3", "vision_config", {"vision_use_head": True}, "vision_config.vision_use_head"),
        ("gemma3", "vision_config", {"model_type": "clip_vision_model"}, "vision_config.model_type"),
        ("gemma3", "text_config", {"per_layer_config": {"0": {}}}, "text_config.per_layer_config"),
        ("gemma3", None, {"mm_tokens_per_image": 9}, "mm_tokens_per_image"),
        ("llama4", None, {"vision_config": None}, "vision_config"),
        ("llama4", "vision_config", {"intermediate_size": 120}, "vision_config.intermediate_size"),
        ("llama4", "vision_config", {"vision_output_dim": 40}, "vision_config.vision_output_dim"),
        ("llama4", "vision_config", {"pixel_shuffle_ratio": 0.3}, "vision_config.pixel_shuffle_ratio"),
        ("llama4", "text_config", {"attention_chunk_size": None}, "text_config.attention_chunk_size"),
        ("llama4", "text_config", {"no_rope_layers": [1, 0]}, "text_config.no_rope_layers"),
        ("mistral3", None, {"vision_config": None}, "vision_config"),
        ("mistral3", None, {"vision_feature_layer": -2}, "vision_feature_layer"),
        ("mistral3", "vision_config", {"head_dim": 6}, "vision_config.head_dim"),
        ("mistral3", "text_config", {"model_type": "llama"}, "text_config.model_type"),
        ("mistral_large4", None, {"vision_config": None}, "vision_config"),
        ("mistral_large4", None, {"vision_feature_layer": [-1, -2]}, "vision_feature_layer"),
        ("mistral_large4", "text_config", {"model_type": "mistral4"}, "text_config.model_type"),
        ("mistral_large4", "text_config", {"tie_word_embeddings": True}, "tie_word_embeddings"),
        ("mistral_large4", "text_config", {"kv_source_layers": [0, 0, 1, 3, 4, 5]}, "text_config.kv_source_layers"),
        ("llava", None, {"vision_feature_layer": [-2, -5]}, "vision_feature_layer"),
        ("llava", None, {"vision_feature_layer": -4}, "vision_feature_layer"),
        ("llava", "vision_config", {"model_type": "siglip_vision_model"}, "vision_config.vision_use_head"),
        ("llava", "text_config", {"model_type": "gpt2"}, "text_config.model_type"),
        ("llava_next", None, {"vision_feature_select_strategy": "full"}, "vision_feature_select_strategy"),
        ("llava_next", "text_config", {"tie_word_embeddings": True}, "tie_word_embeddings"),
        ("llava_onevision", None, {"vision_feature_select_strategy": "default"}, "vision_feature_select_strategy"),
        ("aya_vision", None, {"vision_feature_select_strategy": "default"}, "vision_feature_select_strategy"),
        ("aya_vision", None, {"vision_feature_layer": 0}, "vision_feature_layer"),
        ("step3p7", "vision_config", {"head_dim": 6}, "vision_config.head_dim"),
        ("step3p7", "vision_config", {"mlp_ratio": 0.01}, "vision_config.mlp_ratio"),
        (
            "step3p7",
            "vision_config",
            {"rope_parameters": {"rope_type": "yarn"}},
            "vision_config.rope_parameters.rope_type",
        ),
        ("step3p7", "text_config", {"tie_word_embeddings": True}, "tie_word_embeddings"),
        ("cohere2_vision", None, {"downsample_factor": 3}, "downsample_factor"),
        ("cohere2_vision", None, {"alignment_intermediate_size": 49}, "alignment_intermediate_size"),
        ("gemma4", None, {"audio_config": {"hidden_size": 64}}, "audio_config"),
        ("gemma4", "vision_config", {"head_dim": 6}, "vision_config.head_dim"),
        ("gemma4_text", None, {"use_bidirectional_attention": "all"}, "use_bidirectional_attention"),
        ("gemma4_text", None, {"num_kv_shared_layers": 6}, "num_kv_shared_layers"),
        ("gemma4_text", None, {"per_layer_config": {"7": {}}}, "per_layer_config"),
        ("gemma4_text", None, {"per_layer_config": {"1": {"head_dim": 16}}}, "per_layer_config"),
        ("gemma4_text", None, {"per_layer_config": {"5": {"hidden_size": 16}}}, "per_layer_config.5.hidden_size"),
        ("qwen2_vl", "vision_config", {"in_chans": 1}, "vision_config.in_chans"),
        ("qwen2_vl", "text_config", {"head_dim": 12}, "text_config.head_dim"),
        ("qwen2_5_vl", "vision_config", {"window_size": 7}, "vision_config.window_size"),
        ("qwen2_5_omni_thinker", "vision_config", {"window_size": 7}, "vision_config.window_size"),
        ("lfm2_vl", "vision_config", {"vision_use_head": True}, "vision_config.vision_use_head"),
        ("lfm2_vl", "text_config", {"tie_embedding": False}, "tie_embedding"),
        ("glm4v", "text_config", {"attention_bias": False}, "text_config.attention_bias"),
        ("glm4v", "text_config", {"rope_parameters": None}, "text_config.rope_scaling.mrope_section"),
        ("glm4v_moe", "text_config", {"use_qk_norm": True}, "text_config.use_qk_norm"),
        ("glm4v_moe", "vision_config", {"model_type": "glm4v_vision"}, "vision_config.model_type"),
        ("glm46v", "vision_config", {"model_type": "glm4v"}, "vision_config.model_type"),
        ("glm46v", "text_config", {"tie_word_embeddings": True}, "tie_word_embeddings"),
        ("glm5_next", "text_config", {"qk_rope_head_dim": 4}, "text_config.qk_rope_head_dim"),
        ("glm5_next", "text_config", {"hidden_act": "gelu"}, "text_config.hidden_act"),
        ("glm5_next", "text_config", {"index_topk": 5}, "pool"),
        ("glm5_next", "text_config", {"index_topk_pattern": "FFFSF"}, "text_config.indexer_types"),
        (
            "glm5_next",
            "text_config",
            {"index_kpool_always_select_tail": False},
            "text_config.index_kpool_always_select_tail",
        ),
        ("glm5_next", "text_config", {"q_lora_rank": None}, "text_config.q_lora_rank"),
        ("glm5_next", "text_config", {"linear_lower_bound": 1.0}, "bound"),
        ("glm5_next", "vision_config", {"hidden_act": "gelu"}, "vision_config.hidden_act"),
        ("glm5_next", "vision_config", {"head_dim": 4}, "vision_config.head_dim"),
        ("glm5_next", "vision_config", {"out_hidden_size": 48}, "vision_config.out_hidden_size"),
        ("qwen3_vl", "vision_config", {"out_hidden_size": 48}, "vision_config.out_hidden_size"),
        ("qwen3_vl", "vision_config", {"num_position_embeddings": 35}, "vision_config.num_position_embeddings"),
        ("qwen3_vl", "vision_config", {"deepstack_visual_indexes": [0, 3]}, "vision_config.deepstack_visual_indexes"),
        ("qwen3_vl_moe", "text_config", {"num_experts": None}, "text_config.num_experts"),
    ],
)
def test_what_is_refused(model_type: str, section: str | None, change: dict[str, Any], field: str) -> None:
    base = SEEING[model_type][0]
    with pytest.raises(Refused) as refusal:
        from_config({"model_type": model_type, **(inside(section, base, **change) if section else base | change)})
    assert refusal.value.field == field


@pytest.mark.slow
@pytest.mark.parametrize("model_type", sorted(SEEING))
@pytest.mark.parametrize("scores", ["full", "causal-exact"])
def test_symbols_and_arrays_give_the_exact_ints(model_type: str, scores: Scores) -> None:
    for config in SEEING[model_type][:2]:
        spec = from_config({"model_type": model_type, **config})
        load = Load(batch=BATCH, seq=SEQ, context=9, scores=scores, images=IMAGES if spec.vision else 0)
        exact = everything(spec, load, "full")
        symbols, values = symbolic(spec)
        formulas = everything(symbols, load, "full")
        assert dict(zip(formulas, numbers_in(formulas.values(), values), strict=True)) == exact
        columns = {name: numpy.array([value, value], dtype=float) for name, value in sizes_of(spec).items()}
        for name, column in everything(with_sizes(spec, columns), load, "full").items():
            assert numpy.broadcast_to(column, 2) == pytest.approx(float(exact[name]), rel=1e-12), name
