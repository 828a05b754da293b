"""Training steps whose batch, weights or widths are spread over the ranks of a mesh."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from calc.spec.fields import DeviceKind
from harness.cases.training import DECAY, RATE

if TYPE_CHECKING:
    from torch import Tensor

    from reference_models import Model

Among = Literal["ranks", "one"]


def stepping(
    model: Model, strategy: str, among: Among, ranks: int, tokens: Tensor, device: DeviceKind
) -> Callable[[], Tensor]:
    """One training step on `tokens`; gives this rank's loss. among: all ranks, or each by itself."""
    import torch

    spread = model if strategy == "none" else _spread(model, strategy, _mesh(device, ranks)[among], device)
    # Tensors of one rank beside those of several cannot be updated in one kernel.
    how: dict[str, Any] = {"foreach": False} if strategy == "tensor" else {"fused": True}
    optimizer = torch.optim.AdamW(spread.parameters(), lr=RATE, weight_decay=DECAY, **how)

    def step() -> Tensor:
        loss = token_loss(spread(tokens, kernel="sdpa").logits, tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach().clone()

    return step


def token_loss(logits: Tensor, tokens: Tensor) -> Tensor:
    """Cross entropy of each next token."""
    import torch.nn.functional as F  # noqa: N812

    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


def loss_of(loss: Tensor, strategy: str, ranks: int) -> Tensor:
    """The loss of the whole batch of what each rank has of it, on every rank."""
    import torch.distributed as dist

    if strategy == "tensor":
        return loss
    dist.all_reduce(loss)
    return loss if strategy == "pipeline" else loss / ranks


def _mesh(device: DeviceKind, ranks: int) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(device, (ranks, 1), mesh_dim_names=("ranks", "one"))


def _spread(model: Model, strategy: str, mesh: Any, device: DeviceKind) -> Any:
    if strategy == "ddp":
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model, process_group=mesh.get_group())
    if strategy == "tensor":
        return _divided(model, mesh)
    from torch.distributed.fsdp import fully_shard

    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def _divided(model: Model, mesh: Any) -> Model:
    """Heads and feed-forward widths over the ranks of a mesh, as Megatron divides them: one sum at each block's end and
    one of the gradients at its beginning, whatever number of projections reads it."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        parallelize_module,
    )

    columns, rows = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"), ("o_proj", "down_proj")
    for layer in model.layers:
        names = [name for name, _ in layer.named_modules()]
        ways: dict[str, Any] = {name: ColwiseParallel() for name in names if name.endswith(columns)}
        ways.update({name: RowwiseParallel() for name in names if name.endswith(rows)})
        # A mixer is called with its input, the step, and a cache; a feed-forward block with the first two.
        for block, others in ((layer.mixer, 2), (layer.channel, 1)):
            held = (Replicate(), *(None,) * others)
            ways[block] = PrepareModuleInput(input_layouts=held, desired_input_layouts=held)
        parallelize_module(layer, mesh, ways)
        layer.attention.n_heads //= mesh.size()
        layer.attention.n_kv_heads //= mesh.size()
    return model
