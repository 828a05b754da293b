"""Weights of transformers' models, laid out as ours."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from calc.spec import DeltaNet
from reference_models import Model
from tests.architectures.renaming import named_parameters, rename

TRANSPOSED = {"gpt2", "imagegpt", "decision_transformer", "openai-gpt"}
"""Families whose dense layers keep [in, out]."""
BY_HEAD = {"gpt_neox", "bloom", "falcon", "gpt_bigcode", "persimmon"}
"""Families whose one projection holds, for each key-value head, the queries that it serves, its key and its value."""
GATE_APART = {"afmoe"}
"""Families whose gate has a projection of its own; ours has each head's gate behind its query."""

BUFFERS = {
    ("e_score_correction_bias", "expert_bias", "balancing_biases"): "correction",
    ("layer_scalar",): "out_scale",
    ("tid2eid",): "table",
    ("rotary_emb.alpha",): "tuned",
}
"""Numbers that are learned or set and yet no parameters: their name -> ours."""


def copy_weights(theirs: Any, ours: Model, model_type: str) -> None:
    """Give `ours` the parameters of `theirs`, and the router biases that are buffers; every one must be met."""
    mine = dict(ours.named_parameters())
    met: set[str] = set()
    for name, tensor in named_parameters(theirs):
        paths = [path for path in rename(name, model_type) if path.replace("*", "0") in mine]
        for path, part in zip(paths, parts(name, tensor.detach(), len(paths), model_type, ours), strict=True):
            one = re.search(r"expert_(\d+)\.", name)
            every = enumerate(part) if "*" in path and not one else [(one[1] if one else "", part)]
            for number, own in every:
                own_path = path.replace("*", str(number))
                taken = place(mine[own_path].data, name, own, model_type, ours)
                # A vector that is added to those of all places may be held as of one batch.
                taken.copy_(own[(0,) * max(own.dim() - taken.dim(), 0)])
                met.add(own_path)
    assert met == set(mine)
    for given, taken in BUFFERS.items():
        pairs = zip(buffers(theirs, given), buffers(ours, taken), strict=True)
        for one, other in pairs:
            other.data.copy_(one)


def place(whole: Tensor, name: str, own: Tensor, model_type: str, ours: Model) -> Tensor:
    """The part of our tensor `whole` that theirs, called `name`, fills with `own`; mostly all of it."""
    if row := re.search(r"norms\.(\d+)\.weight$", name):
        return whole[int(row[1])]
    if row := re.search(r"altup_(?:unembed_)?projections\.(\d+)\.weight$", name):
        return whole.unflatten(0, (-1, len(own)))[int(row[1])]
    if model_type in GATE_APART and (half := re.search(r"self_attn\.(q|gate)_proj", name)):
        return whole.unflatten(0, (-1, 2, len(own[0])))[:, int(half[1] == "gate")]
    if each := re.search(r"linear_attn\.([qkv])_proj", name):
        mixers: Any = (group.mixer for group in ours.whole.layers)
        delta = next(mixer for mixer in mixers if isinstance(mixer, DeltaNet))
        keys = delta.n_key_heads * delta.d_key
        start = {"q": 0, "k": keys, "v": 2 * keys}[each[1]]
        return whole[start : start + len(own)]
    return whole


def vary(theirs: Any) -> None:
    """Move all parameters, and the buffers that are learned, far from their initial values."""
    for tensor in (*theirs.parameters(), *(b for name in BUFFERS for b in buffers(theirs, name))):
        if tensor.is_floating_point():
            tensor.data.add_(0.1 * torch.randn_like(tensor))
        else:
            # Which experts a token visits, each of them once.
            chances = torch.rand(len(tensor), theirs.config.num_local_experts)
            tensor.data.copy_(chances.topk(tensor.shape[1]).indices)


def buffers(model: Any, ending: str | tuple[str, ...]) -> list[Tensor]:
    """The buffers whose name ends so, or in one of these ways."""
    return [buffer for name, buffer in model.named_buffers() if name.endswith(ending)]


def parts(name: str, tensor: Tensor, n: int, model_type: str, ours: Model) -> list[Tensor]:
    """One of their tensors as `n` of ours; experts, where it holds several, in front."""
    if model_type in TRANSPOSED and ".h." in f".{name}" and tensor.dim() == 2:
        tensor = tensor.T
    if model_type in BY_HEAD and re.search(r"(query_key_value|c_attn)\.", name):
        tensor = _side_by_side(tensor, ours)
    if model_type == "codegen" and "qkv_proj" in name:
        queries, values, keys = tensor.unflatten(0, (4, 3, -1)).unbind(1)
        tensor = torch.cat([queries, keys, values]).flatten(0, 1)
    if model_type == "convbert" and name.endswith("key_conv_attn_layer.bias"):
        tensor = tensor.flatten()
    if model_type == "xlnet" and (matrix := re.search(r"rel_attn\.([qkvor])$", name)):
        tensor = tensor.flatten(1) if matrix[1] == "o" else tensor.flatten(1).T
    if model_type == "funnel" and name.endswith("r_kernel"):
        tensor = tensor.flatten(1).T
    if model_type == "xlnet" and name.endswith("mask_emb"):
        tensor = tensor[0]
    if re.search(r"\.(hc_norm|ple\.norm_\w+)\.weight$", name):
        tensor = tensor.unflatten(0, (ours.whole.n_streams or 1, -1))
    if model_type == "deberta" and name.endswith("in_proj.weight"):
        mixers: Any = [group.mixer for group in ours.whole.layers]
        tensor = tensor.unflatten(0, (mixers[0].n_heads, 3, -1)).transpose(0, 1).flatten(0, 2)
    if model_type == "dbrx" and ".experts.mlp." in name:
        experts: Any = ours.whole.layers[0].channel
        tensor = tensor.unflatten(0, (experts.n_experts, -1))
        tensor = tensor.transpose(1, 2) if name.endswith("w2") else tensor
    if model_type == "llama4_text" and ".experts." in name:
        tensor = tensor.transpose(1, 2)
    if model_type == "gpt_oss" and ".experts." in name:
        tensor = tensor if name.endswith("_bias") else tensor.transpose(1, 2)
        return [tensor] if n == 1 else [tensor[:, 0::2], tensor[:, 1::2]]
    if model_type in GATE_APART and re.search(r"self_attn\.(q|gate)_proj", name):
        mixer: Any = ours.whole.layers[0].mixer
        tensor = tensor.unflatten(0, (mixer.n_heads, -1))
    if (model_type, name.rpartition(".")[2]) in {
        ("ernie4_5_moe", "e_score_correction_bias"),
        ("kimi_linear", "A_log"),
    }:
        tensor = tensor.flatten()
    if model_type == "rwkv" and ".time_mix_" in name:
        # Theirs is the share of the token itself, ours that of the one before it.
        tensor = 1 - tensor.flatten()
    if model_type == "recurrent_gemma" and "_gate_" in name and tensor.dim() > 1:
        # A matrix for each block from its inputs to its gates, or their biases.
        tensor = (tensor.transpose(1, 2) if name.endswith("weight") else tensor).flatten(0, 1)
    stacked = ".experts." in name or name.endswith(".mlp.input_linear.weight")
    return [tensor] if n == 1 else list(tensor.chunk(n, dim=1 if stacked else 0))


def _side_by_side(tensor: Tensor, ours: Model) -> Tensor:
    """Queries, keys and values of one key-value head after another -> all queries, all keys, all values."""
    mixer: Any = ours.whole.layers[0].mixer
    kv_heads = mixer.n_kv_heads or mixer.n_heads
    by_head = tensor.unflatten(0, (kv_heads, mixer.n_heads // kv_heads + 2, -1))
    queries, keys, values = by_head[:, :-2].flatten(0, 2), by_head[:, -2].flatten(0, 1), by_head[:, -1].flatten(0, 1)
    return torch.cat([queries, keys, values])
