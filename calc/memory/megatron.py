"""The closed forms of Korthikanti et al. 2022 for the activations of a GPT in 16 bits, as a named execution.

Source: Reducing Activation Recomputation in Large Transformer Models (arXiv:2205.05198), equations 1 to 5, table 2 and
section 4.3. With s = seq, b = batch, h = d_model, a = n_heads, t = tp, p = pp, m = interleave, v = vocab_size:

    a layer, tensor parallelism               s b h (10 + 24 / t + 5 a s / (h t))
    and sequence parallelism                  s b h (34 + 5 a s / h) / t
    selective recomputation                   the same without 5 a s / h
    full recomputation                        2 s b h
    layers of the first pipeline stage        n_layers / p times that, p micro-batches; times 1 + (p - 1) / (p m)
    dropout of the embeddings                 s b h p / t
    final norm, head, loss (where p is 1)     4 s b h (1 + v / h) / t

The form counts dropout masks of a byte an element whatever the probability, and no loss scaling, no temporaries, no
buffers. It divides by t what lies outside blocks only with sequence parallelism.
"""

from __future__ import annotations

from calc.errors import Refused
from calc.memory.rank import Activations
from calc.memory.sharding import Stage
from calc.sizes import Size, ceil_div, differ, exact_div, is_exactly
from calc.spec import Attention, Embedding, LayerGroup, Mlp, ModelSpec
from calc.spec.load import Load
from calc.spec.run import Checkpointing, Run
from calc.spec.run.precision import recipe

ONES = ("cp", "checkpoint_every", "loss_chunks")
"""Fields of a plan that the form has no letters for, and that must be 1."""


def activations(spec: ModelSpec, load: Load, run: Run, checkpointing: Checkpointing, stage: Stage) -> Activations:
    """What the ranks of `stage` keep by the closed form, in bytes.

    Errors: Refused for a model or a plan that the form has no letters for.
    """
    group = _check(spec, run, checkpointing)
    vector = load.tokens * spec.d_model
    outside = exact_div(vector, run.tp) if run.divides_sequence else vector
    layer = layer_bytes(group, spec.d_model, load, run, checkpointing)
    layers = exact_div(stage.layers[group.name] * layer * stage.held, stage.chunks)
    front = outside * run.pp if stage.first else 0
    end = 4 * outside if stage.last else 0
    logits = 4 * ceil_div(load.tokens * spec.vocab_size, run.tp) if stage.last else 0
    again = layer_bytes(group, spec.d_model, load, run, "none") - layer if checkpointing != "none" else 0
    return Activations(layers, front + end, logits, again, 0, 0, 0)


def layer_bytes(group: LayerGroup, d_model: Size, load: Load, run: Run, checkpointing: Checkpointing) -> Size:
    """Bytes that one layer keeps of one micro-batch."""
    vector = load.tokens * d_model
    if checkpointing == "full":
        return 2 * vector
    heads = group.mixer.n_heads if isinstance(group.mixer, Attention) else 0
    # 5 a s / h times s b h: softmax 2, its mask 1, its result after dropout 2.
    square = 0 if checkpointing == "selective" else 5 * heads * load.seq * load.tokens
    if run.divides_sequence:
        return exact_div(34 * vector + square, run.tp)
    return 10 * vector + exact_div(24 * vector + square, run.tp)


def _check(spec: ModelSpec, run: Run, checkpointing: Checkpointing) -> LayerGroup:
    """The group of layers. Errors: as `activations`."""
    if checkpointing not in ("none", "selective", "full"):
        raise Refused("checkpointing", "none, selective or full under megatron", checkpointing)
    if recipe(run.recipe).compute != "bf16":
        raise Refused("recipe", "activations of 16 bits under megatron", run.recipe)
    if recipe(run.recipe).inputs is not None:
        raise Refused("recipe", "inputs of matrices in 16 bits under megatron", run.recipe)
    for name in ONES:
        value = getattr(run, name)
        if not is_exactly(value, 1):
            raise Refused(name, "1 under megatron", value)
    for name, none in (("recompute", ()), ("fused_loss", None)):
        if getattr(run, name) != none:
            raise Refused(name, "nothing under megatron", str(getattr(run, name)))
    plain = (
        len(spec.layers) == 1
        and spec.n_streams is None
        and spec.altup is None
        and not spec.towers
        and spec.head is not None
        and spec.adapter is None
    )
    if not plain or not isinstance(spec.embedding, Embedding) or spec.embedding.norm is not None:
        raise Refused("execution", "a decoder alone under megatron", f"{spec.name}, which has more or other parts")
    group = spec.layers[0]
    unknown = _unknown(group, spec.d_model)
    if unknown is not None:
        raise Refused("execution", "another than megatron, whose form is a GPT's", f"{unknown} in {spec.name}")
    return group


def _unknown(group: LayerGroup, d_model: Size) -> str | None:
    """What of a layer the form does not know; sizes are compared where they are ints."""
    mixer, channel = group.mixer, group.channel
    if not isinstance(mixer, Attention) or not isinstance(channel, Mlp) or group.cross is not None or group.shared:
        return "other blocks than attention and a feed-forward block"
    if group.shared_block is not None or channel.shift or group.laurel is not None:
        return "a block that several layers share, shifted tokens, or augmented residuals"
    if group.beside is not None:
        return "a convolution beside a layer"
    if group.placement not in ("pre", "post") or group.norm.kind != "layernorm":
        return "norms other than a LayerNorm for each block"
    if channel.gated:
        return "a gated feed-forward block"
    if channel.d_ff is not None and differ(channel.d_ff, 4 * d_model):
        return "a feed-forward block not four times as wide"
    if mixer.n_kv_heads is not None and differ(mixer.n_kv_heads, mixer.n_heads):
        return "heads that share keys"
    if mixer.d_head is not None and differ(mixer.d_head * mixer.n_heads, d_model):
        return "heads not as wide together as the model"
    if mixer.qk_norm or mixer.v_norm or mixer.softcap or mixer.gate or mixer.sinks or mixer.d_value is not None:
        return "attention with more operations"
    return None
