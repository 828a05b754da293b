"""Gemma 3n as it reads text and sounds in it, against transformers' own class without the eyes, which timm builds."""

from __future__ import annotations

import re
from math import prod
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers.models.gemma3n import configuration_gemma3n, modeling_gemma3n  # noqa: E402

import calc  # noqa: E402
from calc.architectures import from_config  # noqa: E402
from calc.ask.explain import explain  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.kv_cache import kv_cache  # noqa: E402
from calc.quantities.parameters import parameter_shapes, parameters  # noqa: E402
from calc.spec import Lora, ModelSpec  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from harness.counter import count  # noqa: E402
from reference_models import build as twin  # noqa: E402
from reference_models.saved import saved_tensors  # noqa: E402
from tests.architectures.cases_media import HEARD  # noqa: E402
from tests.architectures.cases_recent import GEMMA3N  # noqa: E402
from tests.architectures.renaming import compare, rename  # noqa: E402
from tests.reference_models.test_media import check  # noqa: E402
from tests.reference_models.weights import parts, place  # noqa: E402
from tests.saved.test_readings import total  # noqa: E402

BATCH, SEQ = 2, 11
TEXT = GEMMA3N | {"vocab_size": 97, "vocab_size_per_layer_input": 97}
CONFIG: dict[str, Any] = {
    "text_config": TEXT,
    "audio_config": HEARD | {"vocab_size": 7, "vocab_offset": 90},
    "vision_config": {"hidden_size": 2048, "vocab_size": 6, "vocab_offset": 84},
    "audio_soft_tokens_per_image": 5,
}
SOUND = 96
"""The token in whose places a sound stands."""
EYES = 294_126_912
"""Parameters of timm 1.0.31's mobilenetv5_300m_enc."""


MARKERS = {
    "embedding": "token",
    "hard_embedding_norm": "norm",
    "soft_embedding_norm": "soft_norm",
    "embedding_projection": "project",
}
"""Of what embeds pictures and sounds: transformers' names, and ours."""


PICTURE = 89
"""The token in whose places a picture stands."""


def of(change: dict[str, Any] | None = None, name: str = "Gemma3nForConditionalGeneration") -> ModelSpec:
    return from_config({"model_type": "gemma3n", "architectures": [name], **CONFIG, **(change or {})})


def whole(monkeypatch: pytest.MonkeyPatch, eyes: Any = None) -> Any:
    """transformers' model, `eyes` or nothing in place of what timm builds."""
    real = modeling_gemma3n.AutoModel.from_config

    class Stubbed:
        @staticmethod
        def from_config(config: Any) -> Any:
            return (eyes or torch.nn.Identity()) if config.model_type == "gemma3n_vision" else real(config)

    monkeypatch.setattr(modeling_gemma3n, "AutoModel", Stubbed)
    config = transformers.Gemma3nConfig(
        text_config=configuration_gemma3n.Gemma3nTextConfig(**TEXT, pad_token_id=0),
        audio_config=configuration_gemma3n.Gemma3nAudioConfig(**CONFIG["audio_config"]),
        vision_config=configuration_gemma3n.Gemma3nVisionConfig(**CONFIG["vision_config"]),
        audio_soft_tokens_per_image=5,
        audio_token_id=SOUND,
        image_token_id=PICTURE,
    )
    torch.manual_seed(0)
    return transformers.Gemma3nForConditionalGeneration._from_config(config, attn_implementation="eager").eval()


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Any:
    return whole(monkeypatch)


def tokens() -> Any:
    """Some of pictures and of sounds among them."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(1, 95, (BATCH, SEQ), generator=generator)


def heard(model: Any, frames: int) -> dict[str, Any]:
    """A sound of so many frames in each text."""
    given = tokens()
    given[:, 2:7] = SOUND
    generator = torch.Generator().manual_seed(2)
    mel = torch.rand(BATCH, frames, HEARD["input_feat_size"], generator=generator)
    there = torch.ones(BATCH, frames, dtype=torch.bool)
    return {"input_ids": given, "input_features": mel.to(model.dtype), "input_features_mask": there}


def test_every_weight(theirs: Any) -> None:
    found = {path: p.numel() for path, p in theirs.named_parameters()}
    shapes = {path: prod(shape) for path, shape in parameter_shapes(of()).items()}
    assert sum(n for path, n in shapes.items() if path.startswith("eyes.")) == EYES
    assert sum(shapes.values()) == sum(found.values()) + EYES == sum(parameters(of()).values())
    heard = {path.removeprefix("model.audio_tower."): n for path, n in found.items() if ".audio_tower." in path}
    ears = {path.removeprefix("audio."): n for path, n in shapes.items() if path[:6] == "audio."}
    assert compare(heard, ears, "gemma3n_audio") == {}
    text = {re.sub(r"model\.language_model\.", "model.", path): n for path, n in found.items()}
    text = {path: n for path, n in text.items() if not path.startswith(("model.audio_tower.", "model.embed_"))} | {
        path: n for path, n in text.items() if path.startswith("model.embed_tokens")
    }
    beside = ("eyes.", "audio.", "embedding.pictures.", "embedding.sounds.")
    ours = {path: n for path, n in shapes.items() if not path.startswith(beside)}
    assert compare(text, ours, "gemma3n_text") == {}


def test_a_pass_of_text(theirs: Any) -> None:
    spec, load, given = of(), Load(batch=BATCH, seq=SEQ), tokens()
    assert forward(spec, load).total == count(lambda: theirs(given))
    assert training(spec, load).total == count(lambda: theirs(given, labels=given).loss.backward())
    trained = {path: p.numel() for path, p in theirs.named_parameters() if p.grad is not None}
    assert not any("audio_tower" in path or "embed_audio.soft" in path for path in trained)
    ears = sum(p.numel() for path, p in theirs.named_parameters() if "audio_tower" in path)
    unread = ears + HEARD["hidden_size"] + EYES + 2048
    assert sum(parameters(spec, trainable=True).values()) == sum(trained.values()) + unread
    once = Load(batch=BATCH, seq=1, context=SEQ, decode=True)
    with torch.no_grad():
        cache = theirs(given, use_cache=True).past_key_values
        assert forward(spec, once).total == count(lambda: theirs(given[:, :1], past_key_values=cache))
    text = from_config({"model_type": "gemma3n_text", **TEXT})
    assert kv_cache(spec, BATCH, SEQ, "bf16") == kv_cache(text, BATCH, SEQ, "bf16")


@pytest.mark.parametrize("how", [Settings("eager", "fp32", device="cpu"), Settings("eager", device="cpu")], ids=str)
def test_what_tables_of_pictures_and_sounds_keep(theirs: Any, how: Settings) -> None:
    """Beside what the language model alone keeps, to the byte."""
    model, given = theirs.train(), tokens()
    model = model.bfloat16() if how.dtype == "bf16" else model
    alone = transformers.Gemma3nForCausalLM._from_config(model.config.text_config, attn_implementation="eager").train()
    alone = alone.to(model.dtype)
    whole, text = (saved_tensors(each, lambda each=each: each(given, labels=given)).total for each in (model, alone))
    load = Load(batch=BATCH, seq=SEQ)
    spoken = from_config({"model_type": "gemma3n_text", **TEXT})
    assert total(of(), load, how) - total(spoken, load, how) == whole - text


def take_over(theirs: Any, ours: Any) -> None:
    """All that theirs has but its eyes, where no numbers stand."""
    own = dict(ours.named_parameters())
    for path, parameter in theirs.named_parameters():
        if marked := re.fullmatch(r"model\.embed_(vision|audio)\.(\w+)\.weight", path):
            side = {"vision": "pictures", "audio": "sounds"}[marked[1]]
            own[f"embedding.{side}.{MARKERS[marked[2]]}.weight"].data.copy_(parameter.detach())
        elif path.startswith("model.vision_tower."):
            continue
        elif path.startswith("model.audio_tower."):
            (name,) = rename(path.removeprefix("model.audio_tower."), "gemma3n_audio")
            own[f"audio.{name}"].data.copy_(parameter.detach().reshape(own[f"audio.{name}"].shape))
        else:
            path = path.replace("model.language_model.", "model.")
            names = rename(path, "gemma3n_text")
            for name, part in zip(names, parts(path, parameter.detach(), len(names), "", ours), strict=True):
                place(own[name].data, path, part, "", ours).copy_(part)


def test_the_twin_has_the_same_weights_counts_and_logits(theirs: Any) -> None:
    """Without eyes, which no pass of text or sounds runs."""
    spec = of().model_copy(update={"eyes": None})
    check(spec, "full-early-stop")
    ours, model, given = twin(spec).double().eval(), theirs.double(), tokens()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        take_over(model, ours)
        found, expected = ours(given).logits, model(given).logits
        read = heard(model, 23)
        at = read["input_ids"] == SOUND
        listening = ours(read["input_ids"], sounds=read["input_features"], sound_at=at).logits
        hears, deaf = model(**read).logits, model(read["input_ids"]).logits
    # Norms are in fp32 on both sides.
    assert expected.std() > 0.1
    assert (hears[:, 7:] - deaf[:, 7:]).abs().max() > 0.1
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(listening, hears, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"vision_config": {"architecture": "mobilenetv5_base"}}, "vision_config.architecture"),
        ({"vision_config": {"hidden_size": 1024}}, "vision_config.hidden_size"),
        ({"vision_config": {"model_args": {"depth": 3}}}, "vision_config.model_args"),
        ({"vision_soft_tokens_per_image": 64}, "vision_soft_tokens_per_image"),
        ({"audio_config": None}, "audio_config"),
        ({"vision_config": None}, "vision_config"),
        ({"audio_config": HEARD | {"vocab_offset": 3}}, "audio_config.vocab_offset"),
    ],
)
def test_what_is_refused(change: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as refusal:
        of(change)
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("load", "field"), [(Load(images=1, image=(300, 256)), "image"), (Load(source=41), "source_seq")]
)
def test_odd_pictures_and_longer_sounds_are_refused(load: Load, field: str) -> None:
    with pytest.raises(Refused) as refusal:
        forward(of(), load)
    assert refusal.value.field == field


def test_adapters_are_refused() -> None:
    with pytest.raises(Refused, match="eyes and ears"):
        forward(of().model_copy(update={"adapter": Lora(rank=2)}), Load())


@pytest.mark.parametrize("quantity", ["params", "flops.forward"])
def test_formulas_come_to_the_numbers(quantity: str) -> None:
    """`explain` puts the numbers in by itself, and fails where they give another count."""
    assert explain(of(), quantity).estimate.value == calc.estimate(of(), quantity).value


def test_the_published_size() -> None:
    """gemma-3n-E4B, whose sizes the class's defaults are, has 7.85B parameters as published, with those of keys and
    values that 15 layers borrow, which transformers 5.23 drops."""
    text = {"vocab_size": 262_400, "hidden_size": 2048, "num_hidden_layers": 35}
    found = sum(parameters(of({"text_config": text, "audio_config": {}, "vision_config": {}})).values())
    assert round((found + 15 * (2 * 512 * 2048 + 256)) / 1e9, 2) == 7.85
