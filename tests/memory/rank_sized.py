"""The model that one tensor-parallel rank has, described by itself: its heads and its part of inner widths."""

from __future__ import annotations

from typing import Any

from calc.spec import (
    Attention,
    Bottleneck,
    CompressedAttention,
    DeltaNet,
    GatedConvolution,
    Kda,
    LayerGroup,
    LinearAttention,
    Mamba,
    Mamba2,
    Mla,
    Mlp,
    ModelSpec,
    Moe,
    Parallel,
    RgLru,
    Rwkv4,
    Rwkv7,
    SharedBlock,
)


def rank_sized(spec: ModelSpec, tp: int) -> ModelSpec:
    """`spec` with a rank's blocks and bottlenecks in its main stack and its encoder.

    The vocabulary, whose ends stand outside layers, is left whole, and so is what leads from an encoder to the text.
    """
    adapter = spec.adapter
    if isinstance(adapter, Bottleneck):
        adapter = adapter.model_copy(update={"width": adapter.width // tp})
    encoder = None if spec.encoder is None else _stack(spec.encoder, tp)
    return _stack(spec, tp).model_copy(update={"adapter": adapter, "encoder": encoder})


def _stack(stack: Any, tp: int) -> Any:
    return stack.model_copy(update={"layers": tuple(_group(group, tp, stack.d_model) for group in stack.layers)})


def _group(group: LayerGroup, tp: int, d_model: Any) -> LayerGroup:
    blocks = {name: getattr(group, name) for name in ("mixer", "cross", "channel", "shared_block")}
    return group.model_copy(
        update={name: None if node is None else _of(node, tp, d_model) for name, node in blocks.items()}
    )


def _of(node: Any, tp: int, d_model: Any) -> Any:
    """A block of whose sizes every one that is divided is said, and not left to follow from others."""

    def divided(*names: str, **more: Any) -> Any:
        return node.model_copy(update={name: getattr(node, name) // tp for name in names} | more)

    match node:
        case Attention():
            d_head = d_model // node.n_heads if node.d_head is None else node.d_head
            return divided("n_heads", n_kv_heads=max(node.kv_heads // tp, 1), d_head=d_head)
        case Mamba2():
            return divided("n_heads", n_groups=max(node.n_groups // tp, 1))
        case DeltaNet():
            return divided("n_key_heads", "n_value_heads")
        case Kda() | Mla() | Rwkv7():
            return divided("n_heads")
        case LinearAttention():
            return divided("n_heads", d_head=d_model // node.n_heads if node.d_head is None else node.d_head)
        case Mamba() | GatedConvolution() | Rwkv4():
            usual = 2 * d_model if isinstance(node, Mamba) else d_model
            return divided(d_inner=(usual if node.d_inner is None else node.d_inner) // tp)
        case RgLru():
            return divided("d_inner", "n_blocks")
        case CompressedAttention():
            return divided("n_heads", "n_out_groups")
        case Mlp():
            return divided("d_ff")
        case Moe():
            return divided("d_expert", d_shared=None if node.d_shared is None else node.d_shared // tp)
        case SharedBlock():
            return node.model_copy(
                update={"attention": _of(node.attention, tp, d_model), "mlp": _of(node.mlp, tp, d_model)}
            )
        case Parallel():
            branches = (each.model_copy(update={"mixer": _of(each.mixer, tp, d_model)}) for each in node.branches)
            return node.model_copy(update={"branches": tuple(branches)})
    raise ValueError(f"block: expected one whose share is written down here, found {type(node).__name__}")
