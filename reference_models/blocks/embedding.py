"""Tokens in, logits out, and the dense layers behind a stack."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Embedding, Head, Projection
from reference_models.blocks.byte_patches import HashTables
from reference_models.blocks.linear import ACTIVATIONS, BlockScale, NormLayer, scaled, softcap
from reference_models.blocks.markers import Marked
from reference_models.blocks.page import add_box_tables, box_vectors, boxes_of_patches
from reference_models.blocks.patches import PatchEmbedding
from reference_models.blocks.positions import sinusoidal
from reference_models.step import Step
from reference_models.support import supported

EMBEDDING = (
    *("d_embed", "project", "project_bias", "n_positions", "n_token_types", "sinusoidal", "norm", "norm_of", "shared"),
    *("scale", "position_offset", "sinusoid", "trained_positions", "n_angles", "d_angles", "multiple", "beyond"),
    *("boxes", "picture", "own_token", "weighed", "hashes", "wide", "markers"),
)
HEAD = (
    *("tied", "bias", "n_logits", "own_width", "transform", "transform_bias", "activation", "scale", "softcap"),
    "wide_loss",
)
PROJECTION = (
    "name",
    "d_in",
    "d_out",
    "bias",
    "per",
    "idle",
    "unread",
    "pool",
    "merge",
    "norm",
    "before",
    "activation_before",
    "every",
    "offset",
    "reads",
    "activation",
)
"""Fields of the specs that are computed here."""


class TokenEmbedding(nn.Module):
    """Tokens [batch, seq] -> vectors [batch, seq, d_model], with positions and segments where the spec has them."""

    def __init__(self, spec: Embedding, vocab_size: int | None, d_model: int) -> None:
        super().__init__()
        supported(spec, *EMBEDDING)
        self.spec = spec
        width = spec.d_embed or d_model
        self.token = _table(vocab_size or 0, width)
        if spec.weighed:
            self.weighed = BlockScale(width, shifted=True)
        for each in spec.markers:
            self.add_module(each.name, Marked(each, d_model))
        if spec.hashes is not None:
            self.hash = HashTables(spec.hashes, width)
        if spec.own_token is not None:
            self.own = nn.Module()
            self.own.weight = nn.Parameter(torch.empty(width).normal_(std=0.02))
        if spec.d_embed is not None:
            self.project_in = nn.Linear(width, d_model, bias=spec.project_bias)
            if spec.project == "tokens":
                width = d_model
        if spec.n_positions is not None:
            self.position = _table(spec.n_positions, width)
            if not spec.trained_positions:
                places = torch.arange(spec.n_positions, device=self.position.weight.device)
                self.position.weight = nn.Parameter(sinusoidal(places, width, spec.sinusoid), requires_grad=False)
        if spec.n_angles is not None and spec.d_angles is not None:
            # Held as transformers holds it; attention computes the same angles itself.
            places = torch.arange(spec.n_angles, device=self.token.weight.device)
            self.angles = _table(spec.n_angles, spec.d_angles)
            self.angles.weight = nn.Parameter(sinusoidal(places, spec.d_angles, "apart"), requires_grad=False)
        if spec.n_token_types is not None:
            self.token_type = _table(spec.n_token_types, width)
        if spec.norm is not None:
            self.norm = NormLayer(spec.norm, (width,))
        if spec.boxes is not None:
            add_box_tables(self, spec.boxes)
        if spec.picture is not None and spec.norm is not None:
            self.picture = PatchEmbedding(spec.picture, None, width)
            self.page_norm = NormLayer(spec.norm, (width,))

    def forward(self, tokens: Tensor, step: Step) -> Tensor:
        x = self.token(tokens)
        x = scaled(x if self.spec.hashes is None else x + self.hash(tokens), self.spec.scale)
        if self.spec.weighed:
            x = self.weighed(x)
        for each in self.spec.markers:
            x = self.get_submodule(each.name)(x, tokens)
        if self.spec.own_token is not None:
            x = torch.where((tokens == self.spec.own_token)[..., None], self.own.get_parameter("weight"), x)
        if self.spec.d_embed is not None and self.spec.project == "tokens":
            x = self.project_in(x)
        if self.spec.norm is not None and self.spec.norm_of == "tokens":
            x = self.norm(x)
        if self.spec.n_positions is not None:
            x = x + self.position(step.positions + self.spec.position_offset)
        if self.spec.sinusoidal:
            places = step.positions + self.spec.position_offset
            x = x + sinusoidal(places, x.shape[-1], self.spec.sinusoid).to(x.dtype)
        if self.spec.n_token_types is not None:
            types = torch.zeros_like(tokens) if step.token_types is None else step.token_types
            x = x + self.token_type(types)
        boxes = step.boxes
        if self.spec.boxes is not None:
            boxes = tokens.new_zeros(*tokens.shape, 4) if boxes is None else boxes
            x = x + box_vectors(self, boxes)
        if self.spec.norm is not None and self.spec.norm_of == "sum":
            x = self.norm(x)
        if self.spec.d_embed is not None and self.spec.project == "sum":
            x = self.project_in(x)
        return x if self.spec.picture is None else self._with_picture(x, boxes, step)

    def _with_picture(self, x: Tensor, boxes: Tensor | None, step: Step) -> Tensor:
        """The text x [batch, seq, d_model], and behind it the patches of its page's picture, if any, normed together;
        `step` is told where everything stands. Errors: ValueError for more or fewer pictures than texts."""
        places = torch.arange(x.shape[1], device=x.device)
        if step.pictures is not None:
            if len(step.pictures) != len(x):
                raise ValueError(f"images: expected a picture for each of {len(x)} texts, found {len(step.pictures)}")
            seen = self.picture(step.pictures, step)
            places = torch.cat([places, torch.arange(seen.shape[1], device=x.device)])
            x = self.page_norm(torch.cat([F.dropout(x, step.dropout), seen], dim=1))
            if boxes is not None:
                patches = boxes_of_patches(math.isqrt(seen.shape[1] - 1), x.device).expand(len(x), -1, -1)
                boxes = torch.cat([boxes, patches], dim=1)
        if boxes is not None:
            step.page = places.expand(len(x), -1), boxes
        return x

    def example(self, batch: int, seq: int) -> Tensor:
        """Tokens [batch, seq] to run without data."""
        return torch.zeros(batch, seq, dtype=torch.long, device=self.token.weight.device)


class LmHead(nn.Module):
    """Vectors -> logits [..., vocab_size]. A tied head reads the token table and holds none of its own."""

    def __init__(self, spec: Head, embed: Embedding, vocab_size: int | None, d_model: int) -> None:
        super().__init__()
        supported(spec, *HEAD)
        self.spec = spec
        narrow = None if spec.own_width else embed.d_embed
        width, rows = narrow or d_model, spec.n_logits or vocab_size or 0
        self.projects = narrow is not None and spec.transform is None
        if spec.transform is not None:
            self.transform = nn.Linear(d_model, width, bias=spec.transform_bias)
            self.transform_norm = NormLayer(spec.transform, (width,))
        elif self.projects:
            self.project_out = nn.Linear(d_model, width, bias=False)
        if not spec.tied:
            self.weight = nn.Parameter(torch.empty(rows, width).normal_(std=0.02))
        if spec.bias:
            self.bias = nn.Parameter(torch.zeros(rows))

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """x [..., d_model]; table: the token embedding's, for a tied head."""
        if self.spec.transform is not None:
            x = self.transform_norm(ACTIVATIONS[self.spec.activation](self.transform(x)))
        elif self.projects:
            x = self.project_out(x)
        logits = F.linear(x, table if self.spec.tied else self.weight, self.bias if self.spec.bias else None)
        return softcap(scaled(logits, self.spec.scale), self.spec.softcap)


class Dense(nn.Module):
    """A `Projection`: a dense layer on every token, on each sequence's first, or on `merge` neighbours side by side."""

    def __init__(self, spec: Projection, d_model: int) -> None:
        super().__init__()
        supported(spec, *PROJECTION)
        self.spec = spec
        d_in, d_out = spec.d_in or d_model, spec.d_out or d_model
        if spec.before is not None:
            self.before = NormLayer(spec.before, (d_in,))
        self.dense = nn.Linear(spec.merge * d_in, d_out, bias=spec.bias)
        if spec.norm is not None:
            self.norm = NormLayer(spec.norm, (d_out,))

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """[batch, n, d_in] -> [batch, n / merge, d_out], or [batch, d_out] once a sequence.

        keep [batch, n]: False at padding, which no sequence is read at.
        """
        if not self.spec.unread:
            return self._run(x, keep)
        with torch.no_grad():
            return self._run(x.detach(), keep)

    def _run(self, x: Tensor, keep: Tensor | None) -> Tensor:
        if self.spec.per == "sequence" and x.dim() == 3:
            x = pooled(x, self.spec.pool, keep)
        if self.spec.every > 1:
            x = x[:, self.spec.offset :: self.spec.every]
        if self.spec.before is not None:
            x = self.before(x)
        if self.spec.activation_before is not None:
            x = ACTIVATIONS[self.spec.activation_before](x)
        if self.spec.merge > 1:
            x = x.unflatten(-2, (-1, self.spec.merge)).flatten(-2)
        x = self.dense(x)
        if self.spec.activation is not None:
            x = ACTIVATIONS[self.spec.activation](x)
        return x if self.spec.norm is None else self.norm(x)


def pooled(x: Tensor, how: str, keep: Tensor | None = None) -> Tensor:
    """x [batch, n, d] -> [batch, d]: one of the vectors that are no padding, or a mean of several."""
    if how == "max":
        return (x if keep is None else x.masked_fill(~keep[..., None], -torch.inf)).max(dim=1).values
    if keep is not None:
        return _pooled_without(x, how, keep)
    if how in ("mean", "first-two"):
        return (x if how == "mean" else x[:, :2]).mean(1)
    return x[:, {"first": 0, "second": 1, "last": -1}[how]]


def _pooled_without(x: Tensor, how: str, keep: Tensor) -> Tensor:
    """As `pooled`; keep [batch, n]: False at padding, of which there may be some on either side."""
    place, count = keep.cumsum(1) * keep, keep.sum(1, keepdim=True)
    chosen = {
        "mean": keep,
        "first-two": (place == 1) | (place == 2),
        "first": place == 1,
        "second": place == 2,
        "last": (place == count) & keep,
    }[how].to(x.dtype)
    # A sum of products, not a matrix product, so that it costs what picking one does.
    return (x * chosen[..., None]).sum(1) / chosen.sum(1, keepdim=True)


def _table(rows: int, width: int) -> nn.Embedding:
    table = nn.Embedding(rows, width)
    nn.init.normal_(table.weight, std=0.02)
    return table
