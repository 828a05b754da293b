"""What makes speech of a text: weights that stand beside a model whose passes write text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from pydantic import Field, model_validator

from calc.errors import Refused
from calc.sizes import Size
from calc.spec.fields import Node

Named = tuple[str, tuple[Size, ...]]
"""Path and shape of a weight."""
_KERNEL = 7
"""Steps of the convolutions in a layer that writes units, and at both ends of a vocoder."""


def _affine(path: str, *shape: Size) -> Iterator[Named]:
    """A matrix or kernel whose first axis is what it gives, and a bias."""
    yield f"{path}.weight", shape
    yield f"{path}.bias", shape[:1]


def _norm(path: str, width: Size) -> Iterator[Named]:
    yield f"{path}.weight", (width,)
    yield f"{path}.bias", (width,)


def _predictor(path: str, d_in: Size, width: Size, kernel: int) -> Iterator[Named]:
    """How long each unit lasts: two convolutions with norms, and one number a step."""
    yield from _affine(f"{path}.conv1", width, d_in, kernel)
    yield from _norm(f"{path}.ln1", width)
    yield from _affine(f"{path}.conv2", width, width, kernel)
    yield from _norm(f"{path}.ln2", width)
    yield from _affine(f"{path}.proj", 1, width)


def _attention(path: str, d_model: Size, name: str = "self_attn") -> Iterator[Named]:
    for each in ("k", "v", "q", "out"):
        yield from _affine(f"{path}.{name}.{each}_proj", d_model, d_model)
    yield from _norm(f"{path}.{name}_layer_norm", d_model)


def _dense(path: str, d_model: Size, d_ff: Size) -> Iterator[Named]:
    """A feed-forward block and its norm."""
    yield from _affine(f"{path}.ffn.fc1", d_ff, d_model)
    yield from _affine(f"{path}.ffn.fc2", d_model, d_ff)
    yield from _norm(f"{path}.ffn_layer_norm", d_model)


class Spoken(Node):
    """Durations and letters of what writes units all at once: a table of `n_characters`; a predictor of durations,
    d_predictor wide inside, whose kernels span `kernel` steps of vectors d_read wide."""

    n_characters: int = Field(gt=0, le=2**31)
    d_read: int = Field(gt=0, le=2**31)
    d_predictor: int = Field(gt=0, le=2**31)
    kernel: int = Field(gt=0, le=10**4)

    def weights(self, path: str, d_model: Size) -> Iterator[Named]:
        yield f"{path}.embed_char.weight", (self.n_characters, d_model)
        yield f"{path}.pos_emb_alpha_char", (1,)
        yield f"{path}.pos_emb_alpha", (1,)
        yield from _predictor(f"{path}.duration_predictor", self.d_read, self.d_predictor, self.kernel)


class UnitWriter(Node):
    """Units of speech from the vectors of a text. Encoder layers have feed-forward blocks d_ff wide; the table of units
    is the head's too.

    spoken: they come all at once, and decoder layers have two convolutions behind their attention (SeamlessM4T v2:
    arXiv:2312.05187, section 3.3). None: they come one after another, from decoder layers that read the encoder's
    result and have feed-forward blocks d_ff_decoder wide (SeamlessM4T: arXiv:2308.11596, section 4.3).
    """

    n_units: int = Field(gt=0, le=2**31)
    n_encoder_layers: int = Field(gt=0, le=10**4)
    n_decoder_layers: int = Field(gt=0, le=10**4)
    d_ff: int = Field(gt=0, le=2**31)
    d_ff_decoder: int = Field(gt=0, le=2**31)
    spoken: Spoken | None = None

    def weights(self, d_model: Size) -> Iterator[Named]:
        for i in range(self.n_encoder_layers):
            yield from _attention(f"model.encoder.layers.{i}", d_model)
            yield from _dense(f"model.encoder.layers.{i}", d_model, self.d_ff)
        yield from _norm("model.encoder.layer_norm", d_model)
        yield "model.decoder.embed_tokens.weight", (self.n_units, d_model)
        if self.spoken is not None:
            yield from self.spoken.weights("model.decoder", d_model)
        for i in range(self.n_decoder_layers):
            yield from self._decoder_layer(f"model.decoder.layers.{i}", d_model)
        yield from _norm("model.decoder.layer_norm", d_model)

    def _decoder_layer(self, path: str, d_model: Size) -> Iterator[Named]:
        yield from _attention(path, d_model)
        if self.spoken is None:
            yield from _attention(path, d_model, "cross_attention")
            yield from _dense(path, d_model, self.d_ff_decoder)
            return
        yield from _affine(f"{path}.conv1", d_model, d_model, _KERNEL)
        yield from _affine(f"{path}.conv2", d_model, d_model, _KERNEL)
        yield from _norm(f"{path}.conv_layer_norm", d_model)


class Vocoder(Node):
    """Sound from units (HiFi-GAN: Kong et al. 2020, arXiv:2010.05646, section 2.2; with units, as Polyak et al. 2021,
    arXiv:2104.00355): tables of units, speakers and languages, a predictor of durations as wide as a unit's vector, and
    a network of convolutions. At each of its stages channels are halved and every step becomes `rates` of them, by a
    kernel of `kernels` steps; residual blocks with kernels of `residual_kernels` follow, in each two convolutions for
    every one of its `dilations`.
    """

    n_units: int = Field(gt=0, le=2**31)
    d_unit: int = Field(gt=0, le=2**31)
    n_speakers: int = Field(gt=0, le=2**31)
    d_speaker: int = Field(gt=0, le=2**31)
    n_languages: int = Field(gt=0, le=2**31)
    d_language: int = Field(gt=0, le=2**31)
    kernel: int = Field(gt=0, le=10**4)
    n_channels: int = Field(gt=0, le=2**31)
    rates: tuple[int, ...] = Field(min_length=1, max_length=30)
    kernels: tuple[int, ...] = Field(min_length=1, max_length=30)
    residual_kernels: tuple[int, ...] = Field(min_length=1, max_length=30)
    dilations: tuple[tuple[int, ...], ...] = Field(min_length=1, max_length=30)

    @model_validator(mode="after")
    def _each_has_its_own(self) -> Self:
        if len(self.kernels) != len(self.rates):
            raise Refused("kernels", f"one for each of {len(self.rates)} rates", len(self.kernels))
        if len(self.dilations) != len(self.residual_kernels):
            raise Refused("dilations", f"some for each of {len(self.residual_kernels)} kernels", len(self.dilations))
        if self.n_channels // 2 ** len(self.rates) < 1:
            raise Refused("n_channels", f"some left behind {len(self.rates)} halvings", self.n_channels)
        sizes = (*self.rates, *self.kernels, *self.residual_kernels, *(d for each in self.dilations for d in each))
        if min(sizes) < 1:
            raise Refused("rates", "numbers above 0, as kernels and dilations", min(sizes))
        return self

    def weights(self) -> Iterator[Named]:
        yield from _predictor("dur_predictor", self.d_unit, self.d_unit, self.kernel)
        yield "unit_embedding.weight", (self.n_units, self.d_unit)
        yield "speaker_embedding.weight", (self.n_speakers, self.d_speaker)
        yield "language_embedding.weight", (self.n_languages, self.d_language)
        width = self.d_unit + self.d_language + self.d_speaker
        yield from _affine("hifi_gan.conv_pre", self.n_channels, width, _KERNEL)
        left, block = self.n_channels, 0
        for i, kernel in enumerate(self.kernels):
            left = self.n_channels // 2 ** (i + 1)
            yield f"hifi_gan.upsampler.{i}.weight", (self.n_channels // 2**i, left, kernel)
            yield f"hifi_gan.upsampler.{i}.bias", (left,)
            for own, dilations in zip(self.residual_kernels, self.dilations, strict=True):
                for side in ("convs1", "convs2"):
                    for at in range(len(dilations)):
                        yield from _affine(f"hifi_gan.resblocks.{block}.{side}.{at}", left, left, own)
                block += 1
        yield from _affine("hifi_gan.conv_post", 1, left, _KERNEL)


class Speech(Node):
    """A writer of units and a vocoder. Their weights are counted, and no pass runs them: how many units a text becomes,
    and how many steps of sound a unit, is what the model predicts. No gradient comes to them, so that nothing is
    trained of them."""

    units: UnitWriter
    vocoder: Vocoder

    def weights(self, d_model: Size) -> Iterator[Named]:
        """Path and shape of each, as transformers 5.23 names them."""
        for path, shape in self.units.weights(d_model):
            yield f"t2u_model.{path}", shape
        for path, shape in self.vocoder.weights():
            yield f"vocoder.{path}", shape
