"""A model's layers over the stages of a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.cases.steps import token_loss
from harness.cases.training import DECAY, RATE

if TYPE_CHECKING:
    from torch import Tensor, nn

    from reference_models import Model


def pipelined(model: Model, rank: int, ranks: int, tokens: Tensor, micro_batches: int) -> Callable[[], Tensor]:
    """One step by GPipe's schedule; gives the loss on the last rank, nothing on the others."""
    import torch
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    part = stage_of(model, rank, ranks)
    stage = PipelineStage(part, rank, ranks, tokens.device)
    schedule = ScheduleGPipe(stage, micro_batches, loss_fn=token_loss)
    optimizer = _optimizer(part)
    first, last = rank == 0, rank == ranks - 1

    def step() -> Tensor:
        losses: list[Tensor] = []
        given: dict[str, Any] = {"target": tokens, "losses": losses} if last else {}
        schedule.step(*([tokens] if first else []), **given)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return torch.stack(losses).mean().detach() if last else torch.zeros((), device=tokens.device)

    return step


def stage_alone(model: Model, rank: int, ranks: int, tokens: Tensor, micro_batches: int) -> Callable[[], Any]:
    """What one rank computes in a step, with numbers of its own in the place of what others send."""
    import torch

    part, last = stage_of(model, rank, ranks), rank == ranks - 1
    optimizer = _optimizer(part)
    pieces = tokens.chunk(micro_batches)
    width = int(model.spec.d_model)

    def step() -> None:
        ends = []
        for piece in pieces:
            given = piece if rank == 0 else torch.randn(*piece.shape, width, requires_grad=True, device=piece.device)
            ends.append(part(given))
        for end, piece in zip(ends, pieces, strict=True):
            if last:
                (token_loss(end, piece) / micro_batches).backward()
            else:
                end.backward(torch.ones_like(end))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def _optimizer(part: nn.Module) -> Any:
    import torch

    return torch.optim.AdamW(part.parameters(), lr=RATE, weight_decay=DECAY, fused=True)


def stage_of(model: Model, rank: int, ranks: int) -> nn.Module:
    """The layers of one stage, behind the embedding on the first and ahead of norm and head on the last."""
    from torch import nn

    from reference_models.first_step import first_step
    from reference_models.layer_pass import run_layer

    each = len(model.layers) // ranks
    own = nn.ModuleList(list(model.layers)[rank * each : (rank + 1) * each])
    model.layers = own
    whole: Any = model
    first, last = rank == 0, rank == ranks - 1
    if not first:
        whole.embedding = nn.Identity()
    if not last:
        whole.lm_head = nn.Identity()

    class Stage(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Tensor) -> Tensor:
            step = replace(first_step(model.spec.embedding, x, None, None), kernel="sdpa")
            if first:
                x, step = model.embed(x, step)
            layers: Any = own
            for place, layer in enumerate(layers):
                x = run_layer(layer, x, replace(step, layer=rank * each + place, n_layers=each * ranks), None, None)
            return model.lm_head(model.end(x), x) if last else x

    return Stage()
