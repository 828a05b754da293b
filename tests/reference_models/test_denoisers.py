"""Denoisers by diffusers' configs: our count against the twin, against diffusers where it is installed, and against
what is published of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import calc  # noqa: E402
from calc.architectures import from_config  # noqa: E402
from calc.cli import cli  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.quantities.parameters import parameter_shapes, parameters  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors  # noqa: E402
from calc.spec import ModelSpec  # noqa: E402
from calc.spec.load import Load  # noqa: E402
from calc.symbols import describe  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from harness.oracles import MODES, reference  # noqa: E402
from reference_models import build  # noqa: E402
from reference_models.saved import saved_tensors as probed  # noqa: E402

TEXT, SIDE = 5, 8
DIT = {
    "num_attention_heads": 3,
    "attention_head_dim": 8,
    "num_layers": 3,
    "in_channels": 4,
    "sample_size": SIDE,
    "patch_size": 2,
    "num_embeds_ada_norm": 11,
    "out_channels": 6,
}
SD3 = {
    "num_attention_heads": 3,
    "attention_head_dim": 8,
    "num_layers": 4,
    "in_channels": 4,
    "sample_size": SIDE,
    "patch_size": 2,
    "joint_attention_dim": 20,
    "caption_projection_dim": 24,
    "pooled_projection_dim": 18,
    "out_channels": 5,
    "pos_embed_max_size": 6,
}
FLUX = {
    "num_attention_heads": 3,
    "attention_head_dim": 8,
    "num_layers": 2,
    "num_single_layers": 3,
    "in_channels": 12,
    "joint_attention_dim": 20,
    "pooled_projection_dim": 18,
    "axes_dims_rope": [2, 4, 2],
    "guidance_embeds": True,
}
CASES = [
    ("DiTTransformer2DModel", DIT),
    ("DiTTransformer2DModel", DIT | {"attention_bias": False, "activation_fn": "gelu", "out_channels": None}),
    ("SD3Transformer2DModel", SD3),
    ("SD3Transformer2DModel", SD3 | {"qk_norm": "rms_norm", "dual_attention_layers": [0, 1]}),
    ("FluxTransformer2DModel", FLUX),
    ("FluxTransformer2DModel", FLUX | {"guidance_embeds": False, "num_layers": 0, "out_channels": 10}),
]
HOW = [
    Settings("sdpa", "fp32", device="cpu"),
    Settings("sdpa", "bf16", device="cpu"),
    Settings("sdpa", "bf16", autocast=True, device="cpu"),
    Settings("eager", "fp32", device="cpu"),
]
each_case = pytest.mark.parametrize(("name", "config"), CASES)


def small(name: str, config: dict[str, Any]) -> ModelSpec:
    """The description, with few latents and little text."""
    spec = from_config({"_class_name": name, **config})
    front: Any = spec.embedding
    fewer = {"height": SIDE, "width": SIDE} | ({} if front.n_text is None else {"n_text": TEXT})
    return spec.model_copy(update={"embedding": front.model_copy(update=fewer)})


def told(spec: ModelSpec, batch: int, dtype: Any) -> dict[str, Any]:
    """Random inputs of the twin."""
    front: Any = spec.embedding
    layer: Any = spec.layers[0].denoising
    knows = front.conditioning or layer.conditioning
    made = {"latents": torch.rand(batch, front.channels, SIDE, SIDE), "steps": torch.rand(batch)}
    if front.d_text is not None:
        made |= {"text": torch.rand(batch, TEXT, front.d_text), "pooled": torch.rand(batch, knows.d_pooled)}
    if knows.guidance:
        made["guidance"] = torch.rand(batch)
    made = {key: value.to(dtype) for key, value in made.items()}
    return made if knows.n_classes is None else made | {"classes": torch.arange(batch)}


def kept(spec: ModelSpec, batch: int, how: Settings) -> int:
    return sum(n * each.tensor.bytes for n, each in saved_tensors(spec, Load(batch=batch), how).everything())


def measured(model: Any, inputs: dict[str, Any], how: Settings, **options: Any) -> int:
    def run() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=how.autocast):
            return model(**inputs, **options)

    return probed(model, run).total


@each_case
def test_the_twin_is_what_is_counted(name: str, config: dict[str, Any]) -> None:
    spec = small(name, config)
    model, inputs = build(spec).eval(), told(spec, 2, torch.float32)
    assert {path: tuple(p.shape) for path, p in model.named_parameters()} == parameter_shapes(spec)
    with FlopCounterMode(display=False) as one:
        out = model(**inputs)
    assert spec.denoised is not None
    assert out.shape == (2, 16 if "patch_size" in config else SIDE**2, spec.denoised.d_out)
    assert one.get_total_flops() == forward(spec, Load(batch=2)).total
    with FlopCounterMode(display=False) as both:
        model(**inputs).sum().backward()
    assert both.get_total_flops() == training(spec, Load(batch=2)).total


@pytest.mark.parametrize(("name", "config"), CASES[::2])
def test_it_is_verified_as_other_models_are(name: str, config: dict[str, Any]) -> None:
    """Training with layers, or scores, computed again, too."""
    spec = small(name, config)
    found = reference(spec, 2, 1).quantities
    assert {mode: found[f"flops.training, {mode}"] for mode in MODES} == {
        mode: training(spec, Load(batch=2), mode).total for mode in MODES
    }


@each_case
@pytest.mark.parametrize("how", HOW, ids=["sdpa fp32", "sdpa bf16", "autocast", "eager fp32"])
@pytest.mark.parametrize("batch", [1, 2])
def test_the_twin_keeps_what_is_written_down(name: str, config: dict[str, Any], how: Settings, batch: int) -> None:
    spec = small(name, config)
    dtype = torch.bfloat16 if how.stream == "bf16" else torch.float32
    found = measured(build(spec, dtype=dtype), told(spec, batch, dtype), how, kernel=how.execution)
    assert found == kept(spec, batch, how)


@pytest.mark.parametrize(
    ("name", "config", "total"),
    [
        # 674,834,720 in the original, which embeds step and class once: 27 layers of 28 hold 2,777,472 more.
        ("DiTTransformer2DModel", {"out_channels": 8}, 674_834_720 + 27 * 2_777_472),
        (
            "SD3Transformer2DModel",
            {
                "num_layers": 24,
                "num_attention_heads": 24,
                "caption_projection_dim": 1536,
                "pos_embed_max_size": 192,
            },
            2_028_328_000,
        ),
        ("FluxTransformer2DModel", {"guidance_embeds": True}, 11_901_408_320),
    ],
)
def test_published_totals(name: str, config: dict[str, Any], total: int) -> None:
    """DiT-XL/2: 675 M (Peebles and Xie 2023, table 4); Stable Diffusion 3 Medium: 2 B; FLUX.1 dev: 12 B."""
    assert sum(parameters(from_config({"_class_name": name, **config})).values()) == total


def test_a_step_of_the_published_dit() -> None:
    """118.64 billion multiply-adds for 256 x 256 pixels (Peebles and Xie 2023, table 4), to a thousandth."""
    spec = from_config({"_class_name": "DiTTransformer2DModel", "out_channels": 8})
    assert forward(spec, Load()).total / 2 == pytest.approx(118.64e9, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "change", "field"),
    [
        ("UNet2DConditionModel", {}, "_class_name"),
        ("DiTTransformer2DModel", DIT | {"norm_elementwise_affine": True}, "norm_elementwise_affine"),
        ("FluxTransformer2DModel", FLUX | {"quantization_config": {"load_in_4bit": True}}, "quantization_config"),
        ("DiTTransformer2DModel", DIT | {"activation_fn": "geglu"}, "activation_fn"),
        ("DiTTransformer2DModel", DIT | {"attention_head_dim": 7, "num_attention_heads": 2}, "d_model"),
        ("SD3Transformer2DModel", SD3 | {"caption_projection_dim": 20}, "caption_projection_dim"),
        ("SD3Transformer2DModel", SD3 | {"dual_attention_layers": [1, 2]}, "dual_attention_layers"),
        ("SD3Transformer2DModel", SD3 | {"qk_norm": "layer_norm"}, "qk_norm"),
        ("SD3Transformer2DModel", SD3 | {"pos_embed_max_size": 3}, "pos_embed_max_size"),
        ("FluxTransformer2DModel", FLUX | {"patch_size": 2}, "patch_size"),
        ("FluxTransformer2DModel", FLUX | {"axes_dims_rope": [2, 4, 4]}, "axes_dims_rope"),
        ("FluxTransformer2DModel", FLUX | {"num_single_layers": 0}, "num_single_layers"),
    ],
)
def test_what_is_refused(name: str, change: dict[str, Any], field: str) -> None:
    with pytest.raises(Refused) as refusal:
        from_config({"_class_name": name, **change})
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("name", "config", "image"), [(*CASES[0], (64, 48)), (*CASES[2], (64, 112)), (*CASES[2], (8, 64))]
)
def test_pictures_that_no_pass_takes_are_refused(name: str, config: dict[str, Any], image: tuple[int, int]) -> None:
    """DiT's are square; Stable Diffusion 3 knows the places of so many patches, of which each is there as a whole."""
    with pytest.raises(Refused, match="image"):
        forward(small(name, config), Load(image=image))
    assert forward(small(name, config), Load(image=(32, 32))).total > 0


@pytest.mark.parametrize(
    ("name", "side", "along"),
    [("DiTTransformer2DModel", 256, 16), ("SD3Transformer2DModel", 1024, 16), ("FluxTransformer2DModel", 1024, 16)],
)
def test_pictures_are_in_pixels(name: str, side: int, along: int) -> None:
    """What the pipelines make by themselves, `vae_scale_factor` 8, FLUX.1's latents packed 2 x 2; of a quarter of that
    picture a quarter of the patches."""
    spec = from_config({"_class_name": name})
    assert any(f"the picture has {side} x {side} pixels" in str(text) for text in spec.notes)
    assert forward(spec, Load(image=(side, side))).total == forward(spec, Load()).total
    front: Any = spec.embedding
    own = front.model_copy(update={"height": front.height // 2, "width": front.width // 2})
    halved = forward(spec.model_copy(update={"embedding": own}), Load()).total
    assert forward(spec, Load(image=(side // 2, side // 2))).total == halved < forward(spec, Load()).total / 3
    for image in ((side, side + 8), (side + along // 2, side), (side, 1)):
        with pytest.raises(Refused, match=f"image: expected multiples of {along} pixels"):
            forward(spec, Load(image=image))


def test_the_classes_are_listed_and_named_where_a_config_says_nothing() -> None:
    listed = CliRunner().invoke(cli, ["models", "--families", "--json"], catch_exceptions=False).stdout
    records = [json.loads(line) for line in listed.splitlines()]
    classes = [record["_class_name"] for record in records if record["model_type"] is None]
    assert classes == list(dict.fromkeys(name for name, _ in CASES))
    assert {"model_type": "gpt2", "_class_name": None} in records
    table = CliRunner().invoke(cli, ["models", "--families"], catch_exceptions=False).stdout
    with pytest.raises(Refused) as refusal:
        from_config({"num_layers": 2})
    for name in classes:
        assert name in table
        assert name in str(refusal.value)


def test_formulas_speak_of_latents_and_not_of_pixels() -> None:
    explained = calc.explain(from_config({"_class_name": "SD3Transformer2DModel"}), "flops.forward")
    units = {str(symbol): describe(str(symbol)).unit for symbol in explained.values}
    sides = ("latent_height", "latent_width", "patch")
    assert {name: units[name] for name in sides} == dict.fromkeys(sides, "latents")
    assert describe("latent_channels").meaning == "values of one latent"
    assert "latent_channels" in units
    assert "pixels" not in units.values()
    assert explained.formula.subs(explained.values) == explained.estimate.value


def theirs(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """The twin's inputs as diffusers takes them; packed latents stand in rows, with the places of all vectors."""
    told = {"hidden_states": given["latents"], "timestep": given["steps"]}
    if name.startswith("DiT"):
        return told | {"class_labels": given["classes"]}
    told |= {"encoder_hidden_states": given["text"], "pooled_projections": given["pooled"]}
    if name.startswith("Flux"):
        places = torch.cartesian_prod(torch.arange(1), torch.arange(SIDE), torch.arange(SIDE)).float()
        told["hidden_states"] = given["latents"].flatten(2).transpose(1, 2).contiguous()
        told |= {"img_ids": places, "txt_ids": torch.zeros(TEXT, 3), "guidance": given.get("guidance")}
    return told


@each_case
@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
@pytest.mark.parametrize("batch", [1, 2])
def test_diffusers_counts_and_keeps_the_same(name: str, config: dict[str, Any], batch: int) -> None:
    diffusers = pytest.importorskip("diffusers")
    spec, make = small(name, config), lambda: getattr(diffusers, name)(**config).train()
    model, given = make(), theirs(name, told(spec, batch, torch.float32))
    assert sum(p.numel() for p in model.parameters()) == sum(parameters(spec).values())
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as both:
        model(**given).sample.sum().backward()
    assert both.get_total_flops() == training(spec, Load(batch=batch)).total
    for how in HOW[:3]:
        dtype = torch.bfloat16 if how.stream == "bf16" else torch.float32
        inputs = theirs(name, told(spec, batch, dtype))
        assert measured(make().to(dtype), inputs, how) == kept(spec, batch, how)
