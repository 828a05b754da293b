"""SAM 2's image encoder (Ravi et al. 2024, arXiv:2408.00714): Hiera, stages of ever fewer and wider vectors, attention
within windows and, in some layers, across the whole picture."""

from __future__ import annotations

from typing import NamedTuple

from calc.architectures import vit
from calc.architectures.common import activation, stack
from calc.architectures.config import Config
from calc.architectures.mask_decoder import section
from calc.errors import Refused
from calc.spec import LayerGroup, Mlp, ModelSpec, Patches, PooledAttention, Pyramid, WindowAttention, WindowedPositions
from calc.spec.fields import MAX_LAYERS


class Block(NamedTuple):
    """What tells one layer from another. side: of its windows, None: it sees the whole picture. stride: of how many
    patches along a side it makes one; d_before: width of what it reads."""

    stage: int
    side: int | None
    stride: int
    d_before: int
    width: int
    n_heads: int

    @property
    def changes(self) -> bool:
        """Whether fewer or wider vectors leave it."""
        return self.stride > 1 or self.d_before != self.width

    @property
    def name(self) -> str:
        kind = "_first" if self.changes else "_global" if self.side is None else f"_{self.side}"
        return f"stage{self.stage + 1}{kind}"


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Sam2HieraDetConfig and Sam2VisionConfig; the latter has maps of all stages behind
    the encoder. What reads prompts and gives masks is read by `sam2`."""
    if cfg.raw["model_type"] == "sam2_hiera_det_model":
        cfg.architecture({"Sam2HieraDetModel": True}, usual="Sam2HieraDetModel")
        return backbone(cfg)
    cfg.architecture({"Sam2VisionModel": True}, usual="Sam2VisionModel")
    return vision(cfg)


def vision(cfg: Config) -> ModelSpec:
    """The encoder with maps of all its stages."""
    inner = section(cfg, "backbone_config")
    inner.only("model_type", "sam2_hiera_det_model", why="the encoder that is described")
    made = backbone(inner)
    return made.model_copy(update={"pyramid": _neck(cfg, made)})


def _neck(cfg: Config, encoder: ModelSpec) -> Pyramid:
    """A map of every stage, of which num_feature_levels are given, the largest ones."""
    for key, value in (("fpn_kernel_size", 1), ("fpn_stride", 1), ("fpn_padding", 0)):
        cfg.only(key, value, why="maps are made place by place")
    widths = encoder.stage_widths[::-1]
    given = cfg.numbers("backbone_channel_list", absent=(768, 384, 192, 96), null=(768, 384, 192, 96))
    if list(given) != widths:
        raise Refused(
            f"{cfg.where}backbone_channel_list", f"{widths}, the widths of all stages from the last on", list(given)
        )
    last = len(widths) - 1
    downwards = cfg.numbers("fpn_top_down_levels", absent=(2, 3), null=(2, 3))
    top_down = tuple(i for i in range(last) if i in downwards)
    halves = [getattr(group.merge, "stride", 0) == 2 for group in encoder.layers if group.merge is not None]
    for i in top_down:
        if not halves[i]:
            raise Refused(
                f"{cfg.where}fpn_top_down_levels",
                f"none whose next stage is not half as large, as {i}",
                list(downwards),
            )
    levels = cfg.size("num_feature_levels", absent=3)
    for i in range(levels, last + 1):
        if i - 1 not in top_down:
            raise Refused(f"{cfg.where}num_feature_levels", f"at least {i + 1}: nothing else reads that map", levels)
    return Pyramid(d_out=cfg.size("fpn_hidden_size", absent=256), top_down=top_down)


def backbone(cfg: Config) -> ModelSpec:
    """Patches through all stages; no norm stands behind them."""
    blocks = _blocks(cfg)
    of_name = {block.name: block for block in blocks}
    norm, ratio = vit.layer_norm(cfg, 1e-6), cfg.number("mlp_ratio", absent=4.0)
    act = activation(cfg, "hidden_act", absent="gelu")

    def layer(name: str) -> LayerGroup:
        own = of_name[name]
        heads, mixer, merge = {"n_heads": own.n_heads, "side": own.side}, None, None
        if own.changes:
            merge = PooledAttention(d_merged=own.width, stride=own.stride, norm=norm, **heads)
        else:
            mixer = WindowAttention(plain=True, **heads)
        channel = Mlp(d_ff=int(own.width * ratio), bias=True, activation=act)
        return LayerGroup(count=1, mixer=mixer, channel=channel, norm=norm, merge=merge)

    front = _pictures(cfg)
    _refuse_rests(cfg, front, blocks)
    return ModelSpec(
        d_model=blocks[0].width,
        embedding=front,
        **stack([block.name for block in blocks], layer),
        final_norm=None,
        head=None,
    )


def _blocks(cfg: Config) -> list[Block]:
    """The first layer of a stage has the windows of the stage before it, and in the first stages that follow the very
    first, num_query_pool_stages of them, makes one vector of several."""
    depths = _list(cfg, "blocks_per_stage", (1, 2, 7, 2))
    if sum(depths) > MAX_LAYERS or len(depths) > 16:
        raise Refused(f"{cfg.where}blocks_per_stage", "layers in each of up to 16 stages", list(depths)[:20])
    widths = _list(cfg, "embed_dim_per_stage", (96, 192, 384, 768), len(depths))
    heads = _list(cfg, "num_attention_heads_per_stage", (1, 2, 4, 8), len(depths))
    sides = _list(cfg, "window_size_per_stage", (8, 4, 14, 7), len(depths))
    if (d_model := cfg.size("hidden_size", absent=96)) != widths[0]:
        raise Refused(f"{cfg.where}hidden_size", f"{widths[0]}, the width of the first stage", d_model)
    across = cfg.numbers("global_attention_blocks", absent=(5, 7, 9), null=(5, 7, 9))
    stride, pooled = _pair(cfg, "query_stride", 2), cfg.count("num_query_pool_stages", absent=3)
    blocks: list[Block] = []
    for stage, depth in enumerate(depths):
        cfg.multiple("embed_dim_per_stage", widths[stage], f"num_attention_heads_per_stage[{stage}]", heads[stage])
        for i in range(depth):
            begins = i == 0 and stage > 0
            side = None if len(blocks) in across else sides[stage - begins]
            before, by = widths[stage - begins], stride if begins and stage <= pooled else 1
            blocks.append(Block(stage, side, by, before, widths[stage], heads[stage]))
            if by > 1 and (side is None or side % by or before == widths[stage]):
                expected = f"windows of whole {by} x {by} patches, and wider vectors, where layer {len(blocks)} pools"
                raise Refused(f"{cfg.where}query_stride", expected, f"windows of {side}, {before} to {widths[stage]}")
    return blocks


def _refuse_rests(cfg: Config, front: Patches, blocks: list[Block]) -> None:
    """A picture whose patches make no whole windows of positions, or of which a stage cannot pool all."""
    assert front.stride_height is not None
    assert front.windowed is not None
    for pixels in (front.height, front.width):
        patches = (pixels + 2 * front.padding - front.patch_height) // front.stride_height + 1
        fits = patches % front.windowed.side == 0
        for block in blocks:
            fits, patches = fits and patches % block.stride == 0, patches // block.stride
        if not fits or patches == 0:
            expected = f"patches in whole windows of {front.windowed.side}, which every stage pools without a rest"
            raise Refused(f"{cfg.where}image_size", expected, f"{pixels} pixels")


def _list(cfg: Config, name: str, usual: tuple[int, ...], stages: int = 0) -> tuple[int, ...]:
    """A number above 0 for each stage; of other lists what stands behind those is not read. stages: 0 where the list
    says how many there are."""
    found = cfg.numbers(name, absent=usual, null=usual)
    read = found[:stages] if stages else found
    if len(read) < max(stages, 1) or 0 in read:
        raise Refused(f"{cfg.where}{name}", f"a number above 0 for each of {stages or 'the'} stages", list(found)[:20])
    return found


def _pair(cfg: Config, name: str, usual: int, least: int = 1) -> int:
    """The one number of both sides. Errors: Refused where a list has two that differ."""
    if not isinstance(cfg.raw.get(name), list):
        return (cfg.size if least else cfg.count)(name, absent=usual, null=usual)
    found = cfg.numbers(name, length=2)
    if found[0] != found[1] or found[0] < least:
        raise Refused(f"{cfg.where}{name}", f"one number from {least} on for both sides", list(found))
    return found[0]


def _pictures(cfg: Config) -> Patches:
    """Patches that overlap, and positions of a small grid and of the places in a window of the first stage."""
    height = width = 1024
    if cfg.raw.get("image_size", 0) is not None:
        height, width = vit.sides(cfg, "image_size", absent=1024)
    name = "window_positional_embedding_background_size"
    rows, columns = cfg.numbers(name, length=2, absent=(7, 7), null=(7, 7))
    if 0 in (rows, columns):
        raise Refused(f"{cfg.where}{name}", "numbers above 0", [rows, columns])
    kernel, stride = _pair(cfg, "patch_kernel_size", 7), _pair(cfg, "patch_stride", 4)
    side = _list(cfg, "window_size_per_stage", (8, 4, 14, 7), 1)[0]
    return Patches(
        height=height,
        width=width,
        patch_height=kernel,
        patch_width=kernel,
        stride_height=stride,
        stride_width=stride,
        padding=_pair(cfg, "patch_padding", 3, least=0),
        channels=cfg.size("num_channels", absent=3),
        windowed=WindowedPositions(rows=rows, columns=columns, side=side),
    )
