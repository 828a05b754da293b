"""A whole model built from a `ModelSpec`: the main stack, its head, and the towers beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from calc.spec import Embedding, ModelSpec, Tower
from reference_models.blocks.contrast import Similarity
from reference_models.blocks.embedding import LmHead
from reference_models.blocks.idle import IdleWeights
from reference_models.blocks.mobile_net import Eyes
from reference_models.blocks.prompt import Prompt
from reference_models.cache import Cache
from reference_models.denoiser import Denoiser
from reference_models.first_step import first_step, step_at
from reference_models.mtp import FurtherToken, further
from reference_models.output import Output
from reference_models.places import all_placed, placed, unchanged
from reference_models.stack import StackOfLayers
from reference_models.stages import run_stages
from reference_models.step import Checkpointing, Kernel, Step
from reference_models.tower import TowerOfLayers


def build(
    spec: ModelSpec, device: torch.device | str | None = None, dtype: torch.dtype | None = None, *, mtp: bool = False
) -> Model:
    """The model that `spec` describes; its parameters' names and shapes are those of `calc.parameter_shapes(spec)`.

    device: `meta` builds without memory, for counting. mtp: with the modules that predict further tokens, which `calc`
    counts on request too. Errors: NotImplementedError for a piece that has no module yet; ValueError for a spec without
    such modules.
    """
    if not isinstance(spec, ModelSpec):
        raise TypeError(f'spec: expected a ModelSpec, as calc.load_model("gpt2") gives, found {spec!r}')
    if mtp and spec.mtp is None:
        raise ValueError(f"mtp: expected a spec with modules that predict further tokens, found none in {spec.name}")
    with torch.device(device or "cpu"):
        model: Any = Denoiser(spec) if spec.denoised is not None else Model(spec, mtp=mtp)
    return model if dtype is None else model.to(dtype)


class Model(StackOfLayers):
    """The main stack, its head, and the towers beside it."""

    encoder: Any
    vision: Any
    audio: Any
    patcher: Any
    speech_encoder: Any

    def __init__(self, spec: ModelSpec, *, mtp: bool = False) -> None:
        super().__init__(spec, spec.vocab_size, _source_width(spec))
        self.whole = spec
        self.token_types = getattr(spec.embedding, "n_token_types", None)
        self.on_page = getattr(spec.embedding, "boxes", None) is not None
        for tower in spec.towers:
            if tower is not None:
                self.add_module(tower.name, self._tower(tower))
        if spec.patcher is not None:
            self.patcher.requires_grad_(False)
        if spec.speech_encoder is not None:
            self.speech_encoder.requires_grad_(False)
        if spec.speech is not None:
            self.speech = IdleWeights(spec.speech.weights(spec.d_model))
        if spec.eyes is not None:
            self.eyes = Eyes(spec.eyes)
        if spec.skipped is not None:
            self.skipped = IdleWeights(spec.skipped.weights(spec.d_model))
        if spec.head is not None and isinstance(spec.embedding, Embedding):
            self.lm_head = LmHead(spec.head, spec.embedding, spec.vocab_size, spec.d_model)
        if spec.contrast is not None:
            self.contrast = Similarity(spec.contrast)
        self.mtp = nn.ModuleList()
        if mtp and spec.mtp is not None:
            self.mtp.extend(FurtherToken(spec.mtp, spec.d_model) for _ in range(spec.mtp.count))

    def forward(
        self,
        inputs: Tensor,
        *,
        source: Tensor | None = None,
        images: Tensor | None = None,
        image_at: Tensor | None = None,
        sounds: Tensor | None = None,
        sound_at: Tensor | None = None,
        cache: Cache | None = None,
        at: Tensor | None = None,
        last_only: bool = False,
        keep: Tensor | None = None,
        source_keep: Tensor | None = None,
        token_types: Tensor | None = None,
        boxes: Tensor | None = None,
        prompt: Prompt | None = None,
        kernel: Kernel = "eager",
        checkpointing: Checkpointing = "none",
        dropout: float = 0.0,
        need_weights: bool = False,
        need_hidden: bool = False,
    ) -> Output:
        """One pass. inputs: what the front reads, tokens [batch, seq] for a language model.

        source: what the encoder reads. images: what the vision tower reads; its vectors take the places of the tokens
        where image_at [batch, seq] is True, as many as there are vectors; the encoder's where it is that reads pictures
        (image_at [batch, n]). sounds [windows, frames, values], sound_at: the same of the audio tower. cache: from
        `new_cache`, read and then filled; modules that predict further tokens are for training, and run only without
        one. at: how many tokens the cache holds, a tensor of one on the model's device: nothing then depends on its
        value but numbers, so that the pass can be captured in a CUDA graph; `cache.length` is left alone. last_only:
        logits of the last token alone. keep [batch, seq], source_keep [batch, n]: False at padding; a place for each
        vector that the layers read. boxes [batch, seq, 4]: of the tokens on a page, None: all in one corner; images are
        the pages' pictures. prompt: what is to be found in pictures, None: a point in a corner.
        Errors: ValueError for what this model has no part to read with.
        """
        self._check(source=source, images=images, sounds=sounds, token_types=token_types, boxes=boxes, prompt=prompt)
        options = {"kernel": kernel, "checkpointing": checkpointing, "dropout": dropout, "need_weights": need_weights}
        pictures, images = (images, None) if self.on_page else (None, images)
        seen, deep = (None, []) if images is None else self._see(images, options)
        place, image_at = self._for_encoder(seen, image_at)
        step, losses = self._begun(inputs, cache, keep, at, source, source_keep, options, place)
        step.token_types, step.boxes, step.pictures, step.need_hidden = token_types, boxes, pictures, need_hidden
        if self.whole.patcher is not None:
            self._patch(inputs, options)
        heard = None if sounds is None else self._hear(sounds, options)
        given = self._given(seen, image_at, heard, sound_at)
        x, inner = self.embed(inputs, step, partial(all_placed, given=given))
        inner.losses.extend(losses)
        if image_at is not None:
            inner = replace(inner, image_at=image_at, deep=deep)
        first, x = x, self._run(x, inner, cache)
        if cache is not None and at is None:
            cache.length, cache.keep, cache.source_keep = cache.length + inputs.shape[1], step.keep, step.source_keep
        logits = None if self.whole.head is None else self.logits(x[:, -1:] if last_only else x)
        heads = self._heads(x, inner, prompt)
        compares = self.whole.contrast is not None and seen is not None
        similarity = self.contrast(heads[self.spec.heads[-1].name], seen) if compares else None
        ahead = [] if cache is not None else self._further(first, x, inner)
        return Output(logits, x, heads, inner, seen, deep, step.encoded, similarity, ahead, heard)

    def _heads(self, x: Tensor, step: Step, prompt: Prompt | None) -> dict[str, Tensor]:
        """What reads x [batch, n, d_model] behind the layers, but for the head over the vocabulary."""
        found = self.read(x, step.keep, None if step.tokens is None else step.tokens.shape[1], step.uncut)
        found |= self._of_pictures(x, step, prompt)
        if self.spec.pool is not None:
            found["pool"] = self.pool(x, step)
        return found

    def _of_pictures(self, x: Tensor, step: Step, prompt: Prompt | None) -> dict[str, Tensor]:
        """Maps of the picture x [batch, n, d_model] behind the layers, and the masks of what a prompt says."""
        found: dict[str, Tensor] = {}
        if self.spec.pyramid is not None:
            found |= self.pyramid(step.ends)
        if self.spec.neck is not None:
            found["map"] = self.neck(x, step.grid)
        if self.spec.mask_decoder is not None:
            read = [(found["map"], step.grid)] if self.spec.pyramid is None else []
            read = read or [(found[f"map{i}"], step.ends[i][1]) for i in range(3)]
            found |= self.mask_decoder(read, prompt, step)
        return found

    def _run(self, x: Tensor, step: Step, cache: Cache | None) -> Tensor:
        """x [batch, n, d_model] through all layers and what stands behind them."""
        return self.run(x, step, cache) if self.spec.stages is None else run_stages(self, self.spec.stages, x, step)

    def _check(self, **given: Any) -> None:
        """Refuse inputs that nothing would read."""
        readers = {
            "source": (self.whole.encoder, "an encoder"),
            "images": (self.whole.vision or self.whole.eyes or self.on_page or None, "a vision tower"),
            "boxes": (self.on_page or None, "pages"),
            "prompt": (self.spec.mask_decoder, "a mask decoder"),
            "sounds": (self.whole.audio, "an audio tower"),
            "token_types": (self.token_types, "a table of token types"),
        }
        for name, value in given.items():
            reader, what = readers[name]
            if value is not None and reader is None:
                raise ValueError(f"{name}: expected a model with {what}, found none in {self.whole.name}")

    def logits(self, x: Tensor) -> Tensor:
        """x [..., d_model], after the final norm -> [..., vocab_size]."""
        if self.whole.head is None or not hasattr(self, "lm_head"):
            raise ValueError(
                f"logits: expected a model with a head over its vocabulary, found none in {self.whole.name}"
            )
        return self.lm_head(x, self.get_parameter("embedding.token.weight"))

    def _further(self, first: Tensor, x: Tensor, step: Step) -> list[Tensor]:
        """Logits of the modules that predict further tokens, at the places that have a token so far ahead."""
        made = further(self.mtp, first, x, replace(step, layer=len(self.layers)))
        # The head runs at every place, as it does behind the main stack.
        return [self.logits(each)[:, : each.shape[1] - k - 1] for k, each in enumerate(made)]

    def new_cache(self, length: int | None = None) -> Cache:
        """Empty caches for one batch: they grow (None), or have room for `length` tokens from the start."""
        room = None if length is None else length * self.vectors
        return Cache(
            [layer.new_cache(room) for layer in self.layers], [layer.new_cross_cache() for layer in self.layers]
        )

    def _tower(self, tower: Tower) -> TowerOfLayers:
        encoder = self.whole.encoder if getattr(tower, "reader", "main") == "encoder" else None
        built = TowerOfLayers(tower, self.whole.vocab_size, (encoder or self.whole).d_model)
        if getattr(tower.embedding, "shared", False):
            built.embedding.token = self.embedding.token
            if getattr(tower.embedding, "own_token", None) is not None:
                built.embedding.own = self.embedding.own
        return built

    def _begun(
        self,
        inputs: Tensor,
        cache: Cache | None,
        keep: Tensor | None,
        at: Tensor | None,
        source: Tensor | None,
        source_keep: Tensor | None,
        options: dict,
        place: Callable[[Tensor], Tensor],
    ) -> tuple[Step, list[Tensor]]:
        """The step that the front starts from, with what the encoder makes of `source`, and the encoder's losses.

        place: puts pictures among the encoder's first vectors.
        """
        encoded, losses, source_added, restore = None, [], None, None
        if source is not None:
            source, encoded, read = self._encode(source, source_keep, options, place)
            losses, source_added, restore = read.losses, read.added, read.restore
        elif cache is not None:
            source_keep = cache.source_keep
        step = first_step(self.spec.embedding, inputs, cache, keep) if at is None else step_at(inputs, at, keep)
        step = replace(step, source=source, source_keep=source_keep, source_added=source_added, **options)
        step.encoded, step.restore = encoded, restore
        return step, losses

    def _for_encoder(
        self, seen: Tensor | None, image_at: Tensor | None
    ) -> tuple[Callable[[Tensor], Tensor], Tensor | None]:
        """What puts pictures among the encoder's first vectors, and where they stand among tokens of the main stack."""
        if image_at is None or self.whole.vision is None or self.whole.vision.reader != "encoder":
            return unchanged, image_at
        return partial(placed, given=seen, at=image_at, what="image"), None

    def _encode(
        self, source: Tensor, keep: Tensor | None, options: dict, place: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor | None, Step]:
        """The encoder's vectors, what the last dense layer behind it makes of them, if any, and what it recorded."""
        step = Step(torch.arange(source.shape[1], device=source.device)[None], keep=keep, **options)
        vectors, end, _ = self.encoder(source, step, place)
        vectors = end if self.encoder.tower.stages is not None else vectors
        return vectors, end if self.encoder.spec.heads else None, step

    def _given(
        self, seen: Tensor | None, image_at: Tensor | None, heard: Tensor | None, sound_at: Tensor | None
    ) -> list[tuple[Tensor | None, Tensor, str]]:
        """What towers give to places among tokens, as `all_placed` takes it. Errors: as `_check_pictures`."""
        if image_at is not None:
            self._check_pictures(seen)
        of_towers = (seen, image_at, "image"), (heard, sound_at, "sound")
        return [(made, places, what) for made, places, what in of_towers if places is not None]

    def _check_pictures(self, seen: Tensor | None) -> None:
        """Errors: NotImplementedError for a model that does not read a picture as it does tokens."""
        kind = "tokens" if self.whole.vision is None else self.whole.vision.among_tokens
        # Beside eyes, inputs of layers are of the tokens that stand for pictures, as they are of others.
        plain = self.whole.per_layer is None or self.whole.eyes is not None
        if seen is not None and (kind != "tokens" or not plain):
            what = "per_layer" if kind == "tokens" else f"Tower.among_tokens = {kind!r}"
            raise NotImplementedError(f"{what}: no module computes it yet for text with pictures in it")

    @torch.no_grad()
    def _patch(self, inputs: Tensor, options: dict) -> Tensor:
        """Scores of the byte behind each, whose entropies end patches; the patches of this model are of one length."""
        step = Step(torch.arange(inputs.shape[1], device=inputs.device)[None], **options)
        return self.patcher(inputs, step)[1]

    def _hear(self, sounds: Tensor, options: dict) -> Tensor:
        """The audio tower's vectors of windows of sound, as they take the places of tokens."""
        made = self.audio(sounds, Step(torch.arange(sounds.shape[1], device=sounds.device)[None], **options))[1]
        marked = any(each.name == "sounds" for each in getattr(self.spec.embedding, "markers", ()))
        return self.embedding.get_submodule("sounds").of_tower(made) if marked else made

    def _see(self, images: Tensor, options: dict) -> tuple[Tensor, list[Tensor]]:
        """The vision tower's vectors, and those for single layers of the main stack."""
        if self.whole.eyes is not None:
            return self.embedding.get_submodule("pictures").of_eyes(self.eyes(images)), []
        step = Step(torch.arange(images.shape[1], device=images.device)[None], **options)
        return self.vision(images, step)[1:]


def _source_width(spec: ModelSpec) -> int:
    """Width of what attention over an encoder reads, 0 without one."""
    if spec.encoder is None:
        return 0
    return spec.d_model if spec.encoder.stages is not None else spec.encoder.d_model
