"""Byte latent transformer (Pagnoni et al. 2024, arXiv:2412.09871): bytes with hashed groups, few layers over bytes,
many over patches of them, and few over bytes again that read the patches."""

from __future__ import annotations

from typing import Any

from calc.architectures.common import activation
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import rms_norm
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import (
    Attention,
    Embedding,
    Hashes,
    Head,
    LayerGroup,
    Mlp,
    ModelSpec,
    PatchAttention,
    Patched,
    Projection,
    Tower,
)

GROUPS = (3, 4, 5, 6, 7, 8)
"""Bytes of the groups that are hashed, where encoder_hash_byte_group_size is absent."""
THETA = 500_000.0


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' BltConfig: patches of 4 bytes, two vectors a patch, a window of 512 bytes that hides
    what it does not keep out of the cache.

    transformers caches what layers over bytes keep, and runs those over patches anew.
    """
    encoder, middle, decoder = (cfg.section(f"{name}_config") for name in ("encoder", "global", "decoder"))
    vectors, d_model = cfg.size("cross_attn_k", absent=2), encoder.size("hidden_size")
    window = cfg.size("local_attention_window_len", absent=512, null=None)
    _fits(cfg, encoder, middle, decoder, vectors)
    d_patch = middle.size("hidden_size")
    length = _length(cfg)
    patches = Patched(
        length=length,
        vectors=vectors,
        reader=_reader(encoder),
        d_patch=None if d_patch == vectors * d_model else d_patch,
    )
    local: dict[str, Any] = {"masked_window": window}
    behind = _layers(decoder, "decoder", 2816, **local)
    reads = behind.model_copy(update={"unpatched": vectors, "of_patches": _reader(decoder)})
    groups = [
        _layers(encoder, "encoder", None, **local),
        _layers(middle, "global", 5632, cached=False).model_copy(update={"patched": patches}),
    ]
    if decoder.flag("cross_attn_all_layers", absent=True, null=False) or behind.count == 1:
        groups.append(reads)
    else:
        rest = behind.model_copy(update={"name": "decoder_rest", "count": behind.count - 1})
        groups += [reads.model_copy(update={"count": 1}), rest]
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size", absent=260),
        max_seq_len=encoder.size("max_position_embeddings", absent=24576),
        embedding=Embedding(hashes=_hashes(cfg)),
        layers=tuple(groups),
        final_norm=behind.norm,
        head=Head(tied=cfg.flag("tie_word_embeddings", absent=False)),
        patcher=_patcher(cfg),
    )


def _fits(cfg: Config, encoder: Config, middle: Config, decoder: Config, vectors: int) -> None:
    """Refuse sizes of one section that those of another contradict."""
    for section in (encoder, decoder):
        if (own := section.size("cross_attn_k", absent=2)) != vectors:
            raise Refused(f"{section.where}cross_attn_k", f"cross_attn_k = {vectors}", own)
    for section, name, absent, value in (
        (decoder, "hidden_size", REFUSE, encoder.size("hidden_size")),
        (decoder, "hidden_size_global", 2048, middle.size("hidden_size")),
        (encoder, "vocab_size", 260, cfg.size("vocab_size", absent=260)),
    ):
        if (own := section.size(name, absent=absent)) != value:
            raise Refused(section.where + name, f"{value}, as the section that it meets has it", own)
    several = encoder.layers("num_hidden_layers") > 1
    if encoder.flag("cross_attn_all_layers", absent=False, null=False) and several:
        raise Refused(
            f"{encoder.where}cross_attn_all_layers", "false: of several layers what the last reads alone is used", True
        )


def _length(cfg: Config) -> int:
    """Bytes of a patch."""
    length = cfg.size("patch_size", absent=4)
    longest = cfg.size("max_patch_length", absent=None, null=None)
    if longest is not None and longest < length:
        raise Refused(f"{cfg.where}max_patch_length", f"null, or at least patch_size = {length}", longest)
    cfg.notes.append(
        f"patches are counted as {length} bytes each (patch_size) behind a first of one byte; "
        "how long they are follows from the text"
    )
    return length


def _hashes(cfg: Config) -> Hashes:
    groups = cfg.numbers("encoder_hash_byte_group_size", absent=None, null=None) or GROUPS
    if 0 in groups:
        raise Refused(f"{cfg.where}encoder_hash_byte_group_size", "numbers of bytes above 0", list(groups))
    return Hashes(
        groups=groups,
        functions=cfg.size("encoder_hash_byte_group_nb_functions", absent=1, limit=64),
        n_rows=cfg.size("encoder_hash_byte_group_vocab", absent=500002),
    )


def _patcher(cfg: Config) -> Tower | None:
    """The language model of bytes whose entropies end patches; none where the caller says where they end."""
    cfg.only("patching_mode", "entropy", why="other patches are of one byte each, and one more at the end")
    if not cfg.flag("patch_in_forward", absent=True):
        return None
    section = cfg.section("patcher_config")
    section.only("hidden_act", "silu", why="transformers takes silu whatever this key says")
    vocab = cfg.size("vocab_size", absent=260)
    if (own := section.size("vocab_size", absent=260)) != vocab:
        raise Refused(f"{section.where}vocab_size", f"vocab_size = {vocab}", own)
    window = section.size("sliding_window", absent=512, null=None)
    layers = _layers(section, "layers", 2048, theta=10_000.0, cached=False, masked_window=window)
    return Tower(
        name="patcher",
        d_model=section.size("hidden_size"),
        embedding=Embedding(),
        layers=(layers,),
        final_norm=layers.norm,
        heads=(Projection(name="entropies", d_out=vocab, bias=False),),
    )


def _layers(section: Config, name: str, d_ff: int | None, *, theta: float = THETA, **own: Any) -> LayerGroup:
    """Llama's layers with neighbouring pairs of values turned. d_ff: where intermediate_size is absent; None, as where
    it is null: 8 / 3 of the width. theta: where rope_theta is. own: further fields of Attention."""
    n_heads, n_kv_heads, d_head = _heads(section)
    given = section.size("intermediate_size", absent=d_ff, null=None)
    mixer = Attention(
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        d_head=d_head,
        rope=rope(section, theta=theta, interleaved=True),
        **own,
    )
    width = int(8 * section.size("hidden_size") / 3) if given is None else given
    act = activation(section, "hidden_act", absent="silu")
    return LayerGroup(
        name=name,
        count=section.layers("num_hidden_layers"),
        mixer=mixer,
        channel=Mlp(d_ff=width, gated=True, activation=act),
        norm=rms_norm(section, 1e-5),
    )


def _heads(section: Config) -> tuple[int, int | None, int]:
    """(heads, key-value heads or None where they are as many, width of a head)."""
    d_model, n_heads = section.size("hidden_size"), section.size("num_attention_heads")
    d_head = section.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    section.only("head_dim", None, d_head, why="heads of this family have no width of their own")
    n_kv_heads = section.size("num_key_value_heads", absent=None, null=None)
    if n_kv_heads is not None and n_heads % n_kv_heads:
        raise Refused(f"{section.where}num_key_value_heads", f"a divisor of the {n_heads} query heads", n_kv_heads)
    return n_heads, None if n_kv_heads == n_heads else n_kv_heads, d_head


def _reader(section: Config) -> PatchAttention:
    n_heads, n_kv_heads, d_head = _heads(section)
    return PatchAttention(n_heads=n_heads, n_kv_heads=n_kv_heads, d_head=d_head, norm=rms_norm(section, 1e-5))
