"""Swin (Liu et al. 2021, arXiv:2103.14030): stages of ever fewer and wider vectors, attention within windows. Also
Swin v2 (Liu et al. 2022, arXiv:2111.09883), whose scores are of directions and whose norms stand behind the blocks."""

from __future__ import annotations

from calc.architectures import vit
from calc.architectures.common import LAYER_NORM, activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import LayerGroup, Merge, Mlp, ModelSpec, Norm, Patches, Projection, WindowAttention
from calc.spec.fields import MAX_LAYERS

D_RELATIVE_BIAS = 512
"""Width of the network that gives biases of relative positions in Swin v2; no key sets it."""


def spec(cfg: Config) -> ModelSpec:
    """Every second layer of a stage shifts its windows. Defaults as in transformers' SwinConfig.

    Layers that training skips at random (`drop_path_rate`) change no count.
    """
    second = cfg.raw["model_type"] == "swinv2"
    prefix = "Swinv2" if second else "Swin"
    classes = {f"{prefix}ForImageClassification": True, f"{prefix}Model": False}
    classifies = cfg.architecture(classes, usual=f"{prefix}ForImageClassification")
    depths, norm = _depths(cfg), vit.layer_norm(cfg, 1e-5)
    heads = cfg.numbers("num_heads", absent=(3, 6, 12, 24))
    if len(heads) < len(depths) or 0 in heads:
        raise Refused(f"{cfg.where}num_heads", f"heads for each of {len(depths)} stages", list(heads))
    d_model, front, ratio = cfg.size("embed_dim", absent=96), _pictures(cfg), cfg.number("mlp_ratio", absent=4.0)
    act, bias = activation(cfg, "hidden_act", absent="gelu"), cfg.flag("qkv_bias", absent=True)
    side = cfg.size("window_size", absent=7)
    groups: list[LayerGroup] = []
    for stage, depth in enumerate(depths):
        width, n_heads = d_model * 2**stage, heads[stage]
        cfg.multiple("embed_dim", width, f"num_heads[{stage}]", n_heads)
        mixer = WindowAttention(n_heads=n_heads, side=side, qkv_bias=bias)
        if second:
            mixer = mixer.model_copy(
                update={"d_relative_bias": D_RELATIVE_BIAS, "side": _within(cfg, front, side, stage)}
            )
        made = _stage(stage, depth, width, mixer, Mlp(d_ff=int(ratio * width), bias=True, activation=act), norm)
        groups += [_second(group) for group in made] if second else made
    _refuse_small(cfg, front, groups)
    order = tuple(_name(stage, i % 2 > 0) for stage, depth in enumerate(depths) for i in range(depth))
    head = Projection(name="classifier", d_out=cfg.labels(), per="sequence", pool="mean")
    return ModelSpec(
        d_model=d_model,
        embedding=front,
        layers=tuple(groups),
        schedule=order if len(groups) > 1 else None,
        final_norm=norm,
        heads=(head,) if classifies else (),
        head=None,
    )


def _within(cfg: Config, front: Patches, side: int, stage: int) -> int:
    """The window of a stage of Swin v2, which is no larger than its map. Errors: Refused for oblong pictures, whose
    windows its rows alone bound."""
    if front.height != front.width or front.patch_height != front.patch_width:
        raise Refused(f"{cfg.where}image_size", "a square of square patches", [front.height, front.width])
    along = front.height // front.patch_height // 2**stage
    if along == 0:
        raise Refused(f"{cfg.where}depths", f"stages of at least one patch, not {stage + 1}", "more")
    return min(side, along)


def _second(group: LayerGroup) -> LayerGroup:
    """As in Swin v2: norms on what blocks and matrices give."""
    merge = None if group.merge is None else group.merge.model_copy(update={"norm_of": "given"})
    return group.model_copy(update={"placement": "output", "merge": merge})


def _depths(cfg: Config) -> tuple[int, ...]:
    depths = cfg.numbers("depths", absent=(2, 2, 6, 2))
    if not 0 < len(depths) <= 16 or 0 in depths or sum(depths) > MAX_LAYERS:
        raise Refused(f"{cfg.where}depths", "layers in each of up to 16 stages", list(depths)[:20])
    return depths


def _pictures(cfg: Config) -> Patches:
    """A norm on the patches, of which the last are filled up, and learned positions where the config asks for them."""
    front = vit.pictures(cfg, n_special=0, patch_size=4)
    sides = ((front.height, front.patch_height), (front.width, front.patch_width))
    if cfg.raw["model_type"] == "swinv2":
        cfg.only(
            "use_absolute_embeddings", False, why="its table has one row more than there are patches: no pass runs"
        )
    placed = cfg.flag("use_absolute_embeddings", absent=False)
    if placed and any(pixels % patch for pixels, patch in sides):
        raise Refused(
            f"{cfg.where}image_size", "whole patches, which alone have positions", [front.height, front.width]
        )
    changes = {"norm": LAYER_NORM, "norm_of": "patches", "filled": True, **({} if placed else {"n_positions": None})}
    return front.model_copy(update=changes)


def _name(stage: int, shifted: bool) -> str:
    return f"stage{stage + 1}{'_shifted' if shifted else ''}"


def _stage(stage: int, depth: int, width: int, mixer: WindowAttention, channel: Mlp, norm: Norm) -> list[LayerGroup]:
    """The layers of a stage whose windows stand on the grid, and those whose windows are shifted."""
    plain = LayerGroup(
        name=_name(stage, False),
        count=(depth + 1) // 2,
        mixer=mixer,
        channel=channel,
        norm=norm,
        residual_dropout=True,
        merge=Merge(d_merged=width, norm=LAYER_NORM) if stage else None,
    )
    changes = {"name": _name(stage, True), "merge": None, "mixer": mixer.model_copy(update={"shifted": True})}
    return [plain] if depth == 1 else [plain, plain.model_copy(update=changes | {"count": depth // 2})]


def _refuse_small(cfg: Config, front: Patches, groups: list[LayerGroup]) -> None:
    """A stage of fewer rows or columns than a window: transformers' table of biases then no longer fits its scores."""
    rows, columns = -(-front.height // front.patch_height), -(-front.width // front.patch_width)
    for group in groups:
        if group.merge is not None:
            rows, columns = (rows + 1) // 2, (columns + 1) // 2
        side = group.mixer.side if isinstance(group.mixer, WindowAttention) else None
        if side is not None and min(rows, columns) < side:
            expected = f"at most the {min(rows, columns)} patches along a side in {group.name}"
            raise Refused(f"{cfg.where}window_size", expected, side)
