"""Adapters around a built model: LoRA, prefixes, prompts and bottlenecks, the twins of `calc.blocks.adapters`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Adapter, Bottleneck, Lora, Prefix, Prompt
from reference_models.blocks.attention import SelfAttention
from reference_models.blocks.low_rank import LoraLinear, alike
from reference_models.blocks.quantized import QuantizedLinear
from reference_models.model import Model

UNADAPTED = {"cross_attention", "macaron", "convolution", "per_layer"}
"""Blocks of a layer that a bottleneck does not stand behind."""

WITHIN = ("layers.", "encoder.layers.", "encoder.shortened.")
"""Where modules stand that are in the layers of the main stack and of the encoder."""


def adapt(model: Model, adapter: Adapter) -> Model:
    """`model` itself, all its weights frozen, with the trained weights of `adapter`.

    Their paths are those that `calc.parameter_shapes` gives for the model's spec with this adapter. Before training the
    model computes what it did: LoRA's B and the bottlenecks' up start at zero; prefixes and prompts start at random.
    Errors: NotImplementedError for a model that the adapter has no place in.
    """
    if len(model.mtp):
        raise NotImplementedError("adapters beside modules that predict further tokens: no description says where")
    if any(layer.group.shared_block is not None for layer in model.layers):
        raise NotImplementedError("adapters beside a block that several layers share: no description says where")
    model.requires_grad_(False)
    match adapter:
        case Lora():
            _add_lora(model, adapter)
        case Bottleneck():
            _add_bottlenecks(model, adapter)
        case Prefix():
            _add_prefixes(model, adapter)
        case Prompt():
            _add_prompt(model, adapter)
    return model


class LoraQuantized(nn.Module):
    """W x + b + scale * B A x, W kept as codes (QLoRA: Dettmers et al. 2023, arXiv:2305.14314, equation 5).

    W is unpacked for every product, also going back, and never changes; A and B are in `like`, the format of the rest.
    """

    base: QuantizedLinear

    def __init__(self, base: QuantizedLinear, rank: int, scale: float, like: dict[str, Any]) -> None:
        super().__init__()
        self.base, self.scale = base, scale
        d_out, d_in = base.shape
        self.lora_A = nn.Linear(d_in, rank, bias=False, **like)
        self.lora_B = nn.Linear(rank, d_out, bias=False, **like)
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., d_in] -> [..., d_out]."""
        return self.base(x) + self.scale * self.lora_B(self.lora_A(x))

    def matrix(self, dtype: torch.dtype) -> Tensor:
        """W + scale * B A, [d_out, d_in], W unpacked."""
        return self.base.matrix(dtype) + (self.scale * self.lora_B.weight @ self.lora_A.weight).to(dtype)

    def merged(self) -> nn.Linear:
        """One matrix that computes the same, in the format of A and B: as many bytes as before it was quantized."""
        whole = nn.Linear(*reversed(self.base.shape), bias=self.base.bias is not None, **alike(self.lora_A.weight))
        with torch.no_grad():
            whole.weight.copy_(self.matrix(whole.weight.dtype))
            if self.base.bias is not None:
                whole.bias.copy_(self.base.bias)
        return whole


def merge(model: Model, *, dequantize: bool = False) -> Model:
    """`model` itself with every low-rank update added to its matrix, so that it costs what it did without.

    dequantize: also where the matrix is kept as codes, which then becomes a plain one. Errors: ValueError for such a
    matrix without it, since the sum is none that its codes can write.
    """
    found = [(parent, name, it) for parent, name, it in in_layers(model) if isinstance(it, LoraLinear | LoraQuantized)]
    codes = [name for _, name, it in found if isinstance(it, LoraQuantized)]
    if codes and not dequantize:
        raise ValueError(f"merge: expected plain matrices or dequantize=True, found codes in {codes[0]}")
    for parent, name, module in found:
        setattr(parent, name, module.merged())
    return model


class BottleneckAdapter(nn.Module):
    """h + up(gelu(down(h))) (Houlsby et al. 2019, figure 2)."""

    def __init__(self, d_model: int, width: int, like: dict[str, Any]) -> None:
        super().__init__()
        self.down = nn.Linear(d_model, width, **like)
        self.up = nn.Linear(width, d_model, **like)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, h: Tensor) -> Tensor:
        """h [..., d_model] -> the same shape."""
        return h + self.up(F.gelu(self.down(h)))


class KeysInFront(nn.Module):
    """Trained keys and values, the same for every sequence, that every token attends to (Li & Liang 2021)."""

    def __init__(self, block: SelfAttention, length: int, like: dict[str, Any]) -> None:
        super().__init__()
        self.key = nn.Parameter(torch.randn(block.n_kv_heads, length, block.d_head, **like))
        self.value = nn.Parameter(torch.randn(block.n_kv_heads, length, block.d_value, **like))

    def forward(self, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """k, v [batch, n_kv_heads, keys, width] and mask [.., seq, keys], each with `length` more in front."""
        k, v = (torch.cat([own.expand(len(t), -1, -1, -1), t], dim=2) for own, t in ((self.key, k), (self.value, v)))
        return k, v, torch.cat([mask.new_ones(*mask.shape[:-1], self.key.shape[1]), mask], dim=-1)


class PromptInFront(nn.Module):
    """Trained vectors in front of the embedded tokens (Lester et al. 2021)."""

    def __init__(self, length: int, d_model: int, like: dict[str, Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(length, d_model, **like))

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, seq, d_model] -> [batch, length + seq, d_model]."""
        return torch.cat([self.weight.expand(len(x), -1, -1), x], dim=1)


def in_layers(model: Model, *, indexers: bool = False) -> Iterator[tuple[nn.Module, str, nn.Module]]:
    """(parent, its name there, module) of everything in the layers of the main stack and of the encoder.

    indexers: those of the indexers too, which no gradient passes.
    """
    for path, parent in model.named_modules():
        inside = path.startswith(WITHIN) and (indexers or "indexer" not in path.split("."))
        for name, module in parent.named_children() if inside else ():
            yield parent, name, module


def _add_lora(model: Model, adapter: Lora) -> None:
    scale = 1.0 if adapter.alpha is None else adapter.alpha / adapter.rank
    found: set[str] = set()
    like = alike(next(model.parameters()))
    for parent, name, module in list(in_layers(model)):
        if name not in adapter.targets:
            continue
        if isinstance(module, nn.Linear):
            setattr(parent, name, LoraLinear(module, adapter.rank, scale))
            found.add(name)
        elif isinstance(module, QuantizedLinear):
            setattr(parent, name, LoraQuantized(module, adapter.rank, scale, like))
            found.add(name)
    if missing := set(adapter.targets) - found:
        raise NotImplementedError(f"Lora.targets: no matrices of the layers are called {', '.join(sorted(missing))}")


def _add_bottlenecks(model: Model, adapter: Bottleneck) -> None:
    for stack in (model, *([model.encoder] if model.whole.encoder is not None else [])):
        for layer in {id(layer): layer for layer in stack.layers}.values():
            for name in set(layer.blocks) - UNADAPTED:
                block = layer.get_submodule(name)
                small = BottleneckAdapter(stack.spec.d_model, adapter.width, alike(next(block.parameters())))
                block.add_module("adapter", small)
                block.register_forward_hook(lambda block, given, result: block.adapter(result))


def _add_prefixes(model: Model, adapter: Prefix) -> None:
    for layer in model.layers:
        block = layer.get_submodule(layer.blocks[0])
        if not isinstance(block, SelfAttention) or model.whole.encoder is not None:
            raise NotImplementedError("Prefix: only for the self-attention of models without an encoder")
        if block.prefix is None:
            block.prefix = KeysInFront(block, adapter.length, alike(next(block.parameters())))


def _add_prompt(model: Model, adapter: Prompt) -> None:
    """The pass that begins a sequence reads the prompt before its tokens, which are numbered behind it.

    Logits stand at the prompt's places too. Padding is not supported.
    """
    if model.whole.encoder is not None:
        raise NotImplementedError("Prompt: only for models without an encoder")
    n, like = adapter.length, alike(next(model.parameters()))
    prompt = PromptInFront(n, model.spec.d_model, like)
    model.prompt = prompt

    def number(module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        inputs, step = given
        if step.keep is not None:
            raise NotImplementedError("Prompt: no padding")
        return (inputs, replace(step, positions=step.positions + n)) if step.start == 0 else given

    def put_in_front(module: nn.Module, given: tuple[Any, ...], x: Tensor) -> Tensor:
        return prompt(x) if given[1].start == 0 else x

    def count(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], result: Any) -> None:
        cache, inputs = named.get("cache"), given[0] if given else named["inputs"]
        if cache is not None and cache.length == inputs.shape[1]:
            cache.length += n

    model.embedding.register_forward_pre_hook(number)
    model.embedding.register_forward_hook(put_in_front)
    model.register_forward_hook(count, with_kwargs=True)
