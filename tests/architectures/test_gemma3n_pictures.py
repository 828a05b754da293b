"""Gemma 3n as it sees: its eyes against what timm's gave, the whole with eyes of few channels against transformers'.

What timm 1.0.31 gave is written down here with its source, since timm is no requirement of the tests.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.parameters import parameter_shapes  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors as expected  # noqa: E402
from calc.spec import MobileNet, MobileStage, ModelSpec  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from harness import oracles  # noqa: E402
from harness.counter import count  # noqa: E402
from harness.verify import predictions  # noqa: E402
from reference_models import build  # noqa: E402
from reference_models.blocks.mobile_net import Eyes  # noqa: E402
from reference_models.saved import saved_tensors  # noqa: E402
from tests.architectures.test_gemma3n import PICTURE, of, take_over, tokens, whole  # noqa: E402
from tests.saved.test_readings import total  # noqa: E402
from tests.saved.test_twins import MODES, Mode, measured, twin  # noqa: E402

FEW = MobileNet(
    side=256,
    stem=8,
    d_out=2048,
    expansion=2,
    left=16,
    stages=(
        MobileStage(n_channels=8, edges=((3, 4), (3, 4))),
        MobileStage(n_channels=16, inverted=((3, 5, 6), (5, 0, 4), (3, 0, 4))),
        MobileStage(
            n_channels=24, inverted=((5, 5, 6), (5, 0, 4), (0, 0, 1)), pairs=2, n_heads=3, d_head=8, narrowing=3
        ),
        MobileStage(n_channels=32, inverted=((5, 5, 6),), pairs=2, n_heads=4, d_head=8),
    ),
)
"""In timm's words er_r1_k3_s2_e4_c8, er_r1_k3_s1_e4_c8; uir_r1_a3_k5_s2_e6_c16, uir_r1_a5_k0_s1_e4_c16, …_a3_…;
uir_r1_a5_k5_s2_e6_c24, …_a5_k0_s1_e4_…, …_a0_k0_s1_e1_…, twice mqa_r1_k3_h3_v2_s1_d8_c24 and uir_r1_a0_k0_s1_e2_c24;
uir_r1_a5_k5_s2_e6_c32, twice mqa_r1_k3_h4_s1_d8_c32 and uir_r1_a0_k0_s1_e2_c32, read by `MobileNetV5Encoder`."""
SEQ = 261
HOW = [Settings("eager", "fp32", device="cpu"), Settings("eager", device="cpu"), Settings(autocast=True, device="cpu")]


def seeing() -> ModelSpec:
    return of().model_copy(update={"eyes": FEW})


@pytest.mark.parametrize(
    ("side", "once", "trained", "kept"),
    [
        ((256, 256), 174_738_178_048, 524_101_287_936, 1_691_291_672),
        ((512, 768), 1_119_396_691_968, 3_357_510_598_656, 11_044_083_224),
        ((768, 768), 1_742_965_899_264, 5_227_878_481_920, 17_415_839_768),
    ],
)
def test_published_eyes(side: tuple[int, int], once: int, trained: int, kept: int) -> None:
    """Of two pictures, torch's FLOPs and bytes that autograd keeps in fp32 of timm's mobilenetv5_300m_enc; the matrix
    behind it makes 2 * 256 vectors of 2048 numbers as wide as the text's."""
    spec, seen, text = of(), Load(seq=512, images=2, image=side), Load(seq=512)
    matrix = 2 * 512 * 2048 * spec.d_model
    assert forward(spec, seen).total - forward(spec, text).total == once + matrix
    assert training(spec, seen).total - training(spec, text).total == trained + 3 * matrix
    written = expected(spec, seen, HOW[0])
    assert sum(n * each.tensor.bytes for n, each in written.everything() if each.op.startswith("eyes")) == kept
    with torch.device("meta"):
        assert spec.eyes is not None
        model = Eyes(spec.eyes)
        pictures = torch.zeros(2, 3, *side)
    own = {f"eyes.{path}": tuple(p.shape) for path, p in model.named_parameters()}
    assert own == {path: shape for path, shape in parameter_shapes(spec).items() if path.startswith("eyes.")}
    assert count(lambda: model(pictures).sum().backward()) == trained
    assert saved_tensors(model, lambda: model(pictures)).total == kept


def test_what_eyes_give() -> None:
    """Weights and pixels are sines, so that timm's eyes could be given the same."""
    model = Eyes(FEW).double()
    with torch.no_grad():
        for i, (_, parameter) in enumerate(sorted(model.named_parameters())):
            numbers = torch.arange(parameter.numel(), dtype=torch.float64).reshape(parameter.shape)
            parameter.copy_(torch.sin(0.7 * numbers + i + 1) * 0.5 + (1.0 if parameter.dim() == 1 else 0.0))
        pixels = torch.sin(0.01 * torch.arange(2 * 3 * 256 * 512, dtype=torch.float64)).reshape(2, 3, 256, 512)
        found = model(pixels)
    assert found.shape == (2, 256, 2048)
    first, last = found[0, 0, :3].tolist(), found[1, 255, -3:].tolist()
    assert first == pytest.approx([-1.5681117812952656, 1.9321191059243619, -1.7188460205861764])
    assert last == pytest.approx([-0.8045054663215568, 1.1625554492242687, -1.571574416379132])


class Sight(torch.nn.Module):
    """As transformers wraps timm's eyes."""

    def __init__(self) -> None:
        super().__init__()
        self.timm_model = Eyes(FEW)

    def forward(self, pixel_values: Any, **_: Any) -> Any:
        return SimpleNamespace(last_hidden_state=self.timm_model(pixel_values).transpose(1, 2).unflatten(2, (16, 16)))


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Any:
    return whole(monkeypatch, Sight())


def seen(model: Any, batch: int = 2, pictures: int = 1) -> dict[str, Any]:
    """Pictures in the first text."""
    given = tokens()[:batch].repeat(1, 48)[:, : 256 * pictures + 5]
    given = torch.where(given == PICTURE, 1, given)
    given[0, 2 : 2 + 256 * pictures] = PICTURE
    generator = torch.Generator().manual_seed(3)
    return {"input_ids": given, "pixel_values": torch.rand(pictures, 3, 256, 256, generator=generator).to(model.dtype)}


@pytest.mark.parametrize("pictures", [1, 2])
def test_a_picture_in_a_text(theirs: Any, pictures: int) -> None:
    given = seen(theirs, pictures=pictures)
    batch, seq = given["input_ids"].shape
    load = Load(batch=batch, seq=seq, images=pictures)
    assert forward(seeing(), load).total == count(lambda: theirs(**given))
    trained = count(lambda: theirs(**given, labels=given["input_ids"]).loss.backward())
    assert training(seeing(), load).total == trained
    once, again = (Load(batch=batch, seq=1, context=seq, decode=True, images=n) for n in (0, pictures))
    assert forward(seeing(), once).total == forward(seeing(), again).total


@pytest.mark.parametrize("pictures", [1, 2])
@pytest.mark.parametrize("how", HOW, ids=lambda how: f"{how.dtype} {how.autocast}")
def test_what_a_picture_keeps(theirs: Any, how: Settings, pictures: int) -> None:
    """Beside what the text alone keeps, to the byte."""
    model = theirs.train()
    model = model.bfloat16() if how.dtype == "bf16" and not how.autocast else model
    given = seen(model, pictures=pictures)
    batch, seq = given["input_ids"].shape

    def kept(given: dict[str, Any]) -> int:
        def forward_pass() -> Any:
            with torch.autocast("cpu", torch.bfloat16, enabled=how.autocast):
                return model(**given, labels=given["input_ids"])

        return saved_tensors(model, forward_pass).total

    loads = (Load(batch=batch, seq=seq, images=n) for n in (pictures, 0))
    with_pictures, without = (total(seeing(), load, how) for load in loads)
    assert with_pictures - without == kept(given) - kept({"input_ids": given["input_ids"]})


def test_the_twin_sees_what_transformers_sees(theirs: Any) -> None:
    ours, model = build(seeing()).double().eval(), theirs.double().eval()
    assert {path: tuple(p.shape) for path, p in ours.named_parameters()} == parameter_shapes(seeing())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        take_over(model, ours)
        ours.eyes.load_state_dict(model.model.vision_tower.timm_model.state_dict())
        given = seen(model)
        at = given["input_ids"] == PICTURE
        found = ours(given["input_ids"], images=given["pixel_values"], image_at=at).logits
        sees, blind = model(**given).logits, model(given["input_ids"]).logits
    assert (sees[0, 258:] - blind[0, 258:]).abs().max() > 0.1
    torch.testing.assert_close(found, sees, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", [MODES[i] for i in (0, 2, 5, 7)], ids=str)
def test_the_twin_with_pictures_computes_and_keeps_as_much(mode: Mode) -> None:
    spec, load = seeing(), Load(batch=mode.batch, seq=SEQ, images=1)
    model = twin(spec, mode)
    given = {"inputs": torch.zeros(mode.batch, SEQ, dtype=torch.long), "images": model.eyes.example(1)}
    given["image_at"] = torch.zeros(mode.batch, SEQ, dtype=torch.bool)
    given["image_at"][0, 2:258] = True
    assert forward(spec, load).total == count(lambda: model(**given))
    written = expected(spec, load, mode.settings())
    assert measured(model, mode, **given).total == sum(n * each.tensor.bytes for n, each in written.everything())


@pytest.mark.slow
def test_verify_shows_them_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the size that they are made for. Checkpointing has nothing to do with it."""
    monkeypatch.setattr(oracles, "MODES", ("none",))
    spec = seeing().model_copy(update={"eyes": FEW.model_copy(update={"side": 512})})
    counted = oracles.reference(spec, 1, SEQ)
    predicted = predictions(spec, 1, SEQ, int(oracles.sees(spec)))
    assert {name: predicted[name] for name in counted.quantities} == dict(counted.quantities)
    assert predicted["flops.forward"] > 4 * forward(spec, Load(seq=SEQ)).total
