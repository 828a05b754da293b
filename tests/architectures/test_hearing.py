"""Language models that hear, against transformers' own classes of the same config, small.

Counted there: elements of each parameter, FLOPs of the text and, apart, of the audio tower with its projector, bytes of
the cache, and the FLOPs of one more token; and what the twin's tower gives, with the same weights.
"""

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
from calc.quantities.parameters import by_tower, parameter_shapes, parameters  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors  # noqa: E402
from calc.spec import ModelSpec  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from harness.counter import count  # noqa: E402
from reference_models import build as build_twin  # noqa: E402
from reference_models.inputs import example  # noqa: E402
from reference_models.step import Step  # noqa: E402
from tests.architectures import their_models  # noqa: E402
from tests.architectures.cases_hearing import HEARING, TALKERS  # noqa: E402
from tests.architectures.renaming import rename  # noqa: E402
from tests.architectures.renaming_hearing import AUDIO  # noqa: E402
from tests.architectures.text_beside_tower import BATCH, SEQ, hold_text  # noqa: E402
from tests.saved.test_twins import MODES, Mode, measured, twin  # noqa: E402

WINDOWS = 3
CASES = [(model_type, config) for model_type, configs in HEARING.items() for config in configs]


def build(model_type: str, config: dict[str, Any]) -> Any:
    """transformers' model on the CPU."""
    parsed = their_models.parsed({"model_type": model_type, **config})
    torch.manual_seed(0)
    kind = their_models.class_of({"model_type": model_type})
    return kind._from_config(parsed, attn_implementation="eager", experts_implementation="batched_mm").eval()


def hear(model: Any, mel: Any) -> Any:
    """What the tower and its projector give of windows [windows, values, frames]: [windows * n, d_text]."""
    if model.config.model_type.endswith("_thinker"):
        # Its pieces of one sound.
        whole = mel.transpose(0, 1).flatten(1)[None]
        return model.get_audio_features(whole, torch.ones(1, whole.shape[-1], dtype=torch.long)).pooler_output
    if hasattr(model, "get_audio_features"):
        return model.get_audio_features(mel).pooler_output
    return model.model.multi_modal_projector(model.model.audio_tower(mel).last_hidden_state).flatten(0, 1)


def frames(spec: ModelSpec) -> int:
    """Of one window."""
    assert spec.audio is not None
    n: int = spec.audio.embedding.n_frames  # type: ignore[union-attr]
    return n


@pytest.mark.parametrize(("model_type", "config"), CASES)
def test_same_as_transformers(model_type: str, config: dict[str, Any]) -> None:
    def step(spec: ModelSpec) -> Load:
        return Load(batch=BATCH, seq=1, context=SEQ, decode=True, source=WINDOWS * frames(spec))

    hold_text(build(model_type, config), model_type, config, step)


@pytest.mark.parametrize(("model_type", "config"), CASES)
def test_sounds(model_type: str, config: dict[str, Any]) -> None:
    """Windows of all sequences; the tower's share stands beside the text's."""
    spec, model = from_config({"model_type": model_type, **config}), build(model_type, config)
    n, mel = frames(spec), model.config.audio_config.num_mel_bins
    with torch.no_grad():
        heard = count(lambda: hear(model, torch.randn(BATCH * WINDOWS, mel, n)))
    text, sound = (Load(batch=BATCH, seq=SEQ, source=source) for source in (None, WINDOWS * n))
    assert forward(spec, sound).total - forward(spec, text).total == heard
    tower = sum(parameter.numel() for name, parameter in model.named_parameters() if AUDIO.fullmatch(name))
    apart = by_tower(parameters(spec), parameters(spec, active=True))
    text_and_eyes = apart["text"] + apart.get("vision", 0)
    assert (apart["audio"], text_and_eyes) == (tower, sum(p.numel() for p in model.parameters()) - tower)
    with pytest.raises(Refused, match="whole windows"):
        forward(spec, Load(batch=BATCH, seq=SEQ, source=n + 1))


@pytest.mark.parametrize(("model_type", "config"), CASES)
def test_what_the_twin_hears(model_type: str, config: dict[str, Any]) -> None:
    theirs = build(model_type, config).double()
    spec = from_config({"model_type": model_type, **config})
    ours = build_twin(spec).double().eval()
    mine: dict[str, Any] = {}
    with torch.no_grad():
        for name, tensor in theirs.named_parameters():
            if AUDIO.fullmatch(name):
                (path,) = rename(name, model_type)
                tensor.normal_(std=0.3)
                # Ours lays frames along rows, theirs along columns.
                mine[path] = tensor.transpose(2, 3) if tensor.dim() == 4 else tensor
        for path, parameter in ours.named_parameters():
            if path.startswith("audio."):
                parameter.copy_(mine.pop(path))
        assert not mine
        mel = torch.randn(WINDOWS, theirs.config.audio_config.num_mel_bins, frames(spec), dtype=torch.float64)
        expected = hear(theirs, mel)
        found = ours.audio(mel.transpose(1, 2), Step(torch.arange(1)[None]))[1]
    assert found.std() > 1e-3
    torch.testing.assert_close(found.flatten(0, 1), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("model_type", "config"), CASES)
def test_counts_of_the_twin(model_type: str, config: dict[str, Any]) -> None:
    spec = from_config({"model_type": model_type, **config})
    model = build_twin(spec, "meta", torch.bfloat16)
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == parameter_shapes(spec)
    load = Load(batch=BATCH, seq=SEQ, source=WINDOWS * frames(spec))
    arguments = example(model, BATCH, SEQ, windows=BATCH * WINDOWS)
    assert count(lambda: model(**arguments)) == forward(spec, load).total

    def step() -> None:
        out = model(**arguments)
        (out.logits.sum() + out.heard.sum()).backward()

    assert count(step) == training(spec, load).total


@pytest.mark.parametrize("model_type", sorted(HEARING))
@pytest.mark.parametrize("mode", [MODES[0], MODES[1], MODES[2], MODES[4], MODES[7]], ids=str)
def test_what_is_kept(model_type: str, mode: Mode) -> None:
    """To the byte, with a window of sound for each sequence."""
    spec = from_config({"model_type": model_type, **HEARING[model_type][0]})
    model = twin(spec, mode)
    inputs = example(model, mode.batch, 1, windows=mode.batch)
    with torch.no_grad():
        vectors = model._hear(inputs["sounds"], {}).shape[:-1].numel()
    seq = vectors + 5
    places = torch.arange(mode.batch * seq).view(mode.batch, seq)
    inputs |= {"inputs": torch.zeros_like(places), "sound_at": places < vectors}
    load = Load(batch=mode.batch, seq=seq, source=frames(spec))
    written = saved_tensors(spec, load, mode.settings())
    found = measured(model, mode, **inputs)
    assert found.total == sum(n * each.tensor.bytes for n, each in written.everything())


@pytest.mark.parametrize(
    ("model_type", "change", "field"),
    [
        ("qwen2_audio", {"audio_config": None}, "audio_config"),
        ("qwen2_audio", {"tie_word_embeddings": True}, "tie_word_embeddings"),
        ("qwen2_audio", {"text_config": {"model_type": "llama"}}, "text_config.model_type"),
        ("qwen2_audio", {"audio_config": {"model_type": "whisper"}}, "audio_config.model_type"),
        ("voxtral", {"audio_config": {"hidden_size": 24}}, "audio_config.intermediate_size"),
        ("voxtral", {"text_config": {"tie_word_embeddings": True}}, "text_config.tie_word_embeddings"),
        ("voxtral", {"audio_config": {"model_type": "qwen2_audio_encoder"}}, "audio_config.model_type"),
        ("qwen2_5_omni_thinker", {"audio_config": {"n_window": 5}}, "audio_config.n_window"),
        ("qwen2_5_omni_thinker", {"audio_config": {"n_window": 12}}, "audio_config.n_window"),
        ("qwen2_5_omni_thinker", {"audio_config": {"output_dim": 48}}, "audio_config.output_dim"),
        ("qwen2_5_omni_thinker", {"audio_config": None}, "audio_config"),
        ("qwen2_5_omni_thinker", {"vision_config": None}, "vision_config"),
        ("qwen3_omni_moe_thinker", {"audio_config": {"n_window": 20}}, "audio_config.n_window"),
        ("qwen3_omni_moe_thinker", {"audio_config": {"n_window_infer": 99}}, "audio_config.n_window_infer"),
        ("qwen3_omni_moe_thinker", {"text_config": {"norm_topk_prob": False}}, "text_config.norm_topk_prob"),
    ],
)
def test_what_is_refused(model_type: str, change: dict[str, Any], field: str) -> None:
    base = HEARING[model_type][0]
    changed = {key: base[key] | value if isinstance(value, dict) else value for key, value in change.items()}
    with pytest.raises(Refused) as refusal:
        from_config({"model_type": model_type, **base, **changed})
    assert refusal.value.field == field


@pytest.mark.parametrize(("family", "prefix"), [("qwen2_5_omni", "Qwen2_5Omni"), ("qwen3_omni_moe", "Qwen3OmniMoe")])
def test_a_whole_omni_is_counted_as_its_thinker_where_it_says_so(family: str, prefix: str) -> None:
    """The talker and what makes waves of its words are not described."""
    config = HEARING[f"{family}_thinker"][0]
    whole = {"model_type": family, "thinker_config": config}
    alone = parameter_shapes(from_config({"model_type": f"{family}_thinker", **config}))
    for way in ({"enable_audio_output": False}, {"architectures": [f"{prefix}ThinkerForConditionalGeneration"]}):
        assert parameter_shapes(from_config(whole | way)) == alone
    theirs = their_models.parsed(whole | {"enable_audio_output": False})
    with torch.device("meta"):
        model = getattr(transformers, f"{prefix}ForConditionalGeneration")(theirs)
    assert their_models.total(model) == sum(prod(shape) for shape in alone.values())
    with pytest.raises(Refused, match="talker"):
        from_config(whole)


@pytest.mark.parametrize("config", TALKERS)
def test_a_talker(config: dict[str, Any]) -> None:
    """Parameters, FLOPs of codes and of one more, cache, and the twin's logits beside what the thinker gives."""
    raw = {"model_type": "qwen2_5_omni_talker", **config}
    parsed = their_models.parsed(raw)
    torch.manual_seed(0)
    kind = transformers.Qwen2_5OmniTalkerForConditionalGeneration
    theirs = kind._from_config(parsed, attn_implementation="eager").eval().double()
    spec = from_config(raw)
    ours = build_twin(spec).double().eval()
    codes = torch.randint(0, 97, (BATCH, SEQ))
    nothing = torch.zeros(BATCH, 1, config["embedding_size"], dtype=torch.float64)
    with torch.no_grad():
        mine = dict(ours.named_parameters())
        for name, tensor in theirs.named_parameters():
            (path,) = rename(name, "qwen2_5_omni_talker")
            mine.pop(path).copy_(tensor.normal_(std=0.2))
        assert not mine
        cache = transformers.DynamicCache(config=parsed)
        expected = theirs(codes, thinker_reply_part=nothing, past_key_values=cache).logits
        held = their_models.held(cache)
        again = {"thinker_reply_part": nothing, "past_key_values": cache}
        one = count(lambda: theirs(codes[:, :1], **again))
        found = ours(codes).logits
    torch.testing.assert_close(found.float(), expected, rtol=1e-5, atol=1e-5)
    assert forward(spec, Load(batch=BATCH, seq=SEQ)).total == count(lambda: theirs(codes, thinker_reply_part=nothing))
    assert forward(spec, Load(batch=BATCH, seq=1, context=SEQ, decode=True)).total == one
    assert kv_cache(spec, BATCH, SEQ, "fp32", "cache").total_bytes * 2 == held


def test_sizes_that_a_published_config_leaves_to_its_class() -> None:
    """Qwen2-Audio-7B's: 8.4 billion parameters, its tower 0.6 (arXiv:2407.10759, section 3)."""
    raw = {
        "model_type": "qwen2_audio",
        "architectures": ["Qwen2AudioForConditionalGeneration"],
        "audio_config": {"model_type": "qwen2_audio_encoder", "d_model": 1280, "encoder_attention_heads": 20}
        | {"encoder_ffn_dim": 5120, "encoder_layers": 32, "num_mel_bins": 128, "max_source_positions": 1500},
        "text_config": {"model_type": "qwen2", "intermediate_size": 11008, "max_position_embeddings": 8192}
        | {"rms_norm_eps": 1e-5, "rope_theta": 10000, "sliding_window": 32768, "vocab_size": 156032},
    }
    assert sum(parameters(from_config(raw)).values()) == their_models.total(their_models.build(raw))
