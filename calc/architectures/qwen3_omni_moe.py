"""Qwen3-Omni (arXiv:2509.17765): its thinker, Qwen3's experts with Qwen3-VL's vision tower and an audio tower, whose
convolutions run over frames and mel bins."""

from __future__ import annotations

from calc.architectures.common import LAYER_NORM, activation, stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, rms_norm
from calc.architectures.qwen2_5_omni import thinker_section
from calc.architectures.qwen2_moe import channel_kinds, channel_of
from calc.architectures.qwen_vision import qwen_tower
from calc.architectures.rope import rope
from calc.architectures.vision import multimodal, reaches_text, text_section
from calc.architectures.whisper import side_layer
from calc.errors import Refused
from calc.spec import Convolution, Dense, Frames, LayerGroup, ModelSpec, Projector, QkNorm, Tower

VECTORS = 13
"""Of a piece, behind the convolutions: a number that transformers has written down."""


def spec(cfg: Config) -> ModelSpec:
    """The thinker alone: what it says is spoken by a talker and what makes waves, which are not described."""
    if cfg.raw["model_type"] == "qwen3_omni_moe":
        cfg = thinker_section(cfg, "Qwen3OmniMoe")
    text = _text(text_section(cfg, "qwen3_omni_moe_text"))
    seeing = multimodal(
        cfg, text, qwen_tower(cfg, text.d_model, "qwen3_omni_moe_vision_encoder", deepstack=True), tied=False
    )
    return seeing.model_copy(update={"audio": _audio(cfg, text.d_model)})


def _text(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Qwen3OmniMoeTextConfig. The chosen experts' weights always sum to one."""
    cfg.only("use_sliding_window", False, None, why="no layer of this family has a window")
    cfg.only("norm_topk_prob", True, why="transformers makes the weights sum to one whatever it says")
    bias, norm, n_layers = cfg.flag("attention_bias", absent=False), rms_norm(cfg), cfg.layers("num_hidden_layers")
    mixer = attention(
        cfg,
        kv_absent=4,
        kv_null=REFUSE,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=QkNorm(norm=norm),
        rope=rope(cfg, theta=1e6, sections=True),
    )
    kinds = channel_kinds(cfg, n_layers)
    made = channel_of(cfg, kinds, shared=False)
    layers = stack(kinds, lambda kind: LayerGroup(count=n_layers, mixer=mixer, channel=made[kind], norm=norm))
    return decoder(cfg, layers, max_seq_len=32768, norm=norm)


def _audio(cfg: Config, d_text: int) -> Tower:
    """Pieces of 2 * n_window frames pass three convolutions, each with positions of its own; attention sees the pieces
    of n_window_infer frames together. Defaults as in Qwen3OmniMoeAudioEncoderConfig."""
    audio = cfg.section("audio_config")
    audio.only("model_type", "qwen3_omni_moe_audio_encoder", why="the audio tower that this family is built around")
    d_model, piece = audio.size("d_model"), 2 * audio.size("n_window", absent=50)
    if d_model % 2:
        raise Refused(f"{audio.where}d_model", "an even number, for sines and cosines", d_model)
    pieces = audio.size("n_window_infer", absent=800) // piece
    if pieces < 1:
        raise Refused(f"{audio.where}n_window_infer", f"at least a piece of 2 * n_window = {piece} frames", "fewer")
    channels, act = (
        audio.size("downsample_hidden_size", absent=480),
        activation(audio, "activation_function", absent="gelu"),
    )
    strided = {"n_channels": channels, "kernel": 3, "stride": 2, "padding": 1, "dims": 2}
    front = Frames(
        n_frames=pieces * piece,
        piece=piece,
        d_frame=audio.size("num_mel_bins", absent=128),
        convolutions=tuple(Convolution(name=f"conv2d{i}", **strided) for i in (1, 2, 3)),
        project_bias=False,
        sinusoidal=True,
        sinusoid="halves",
    )
    if front.vectors_of(piece) != VECTORS:
        expected = f"half a piece of which {VECTORS} vectors are left, as transformers counts on"
        raise Refused(f"{audio.where}n_window", expected, piece // 2)
    if front.vectors_of(piece) > (rows := audio.size("max_source_positions", absent=1500)):
        raise Refused(f"{audio.where}n_window", f"at most {rows} vectors of a piece (max_source_positions)", piece)
    reaches_text(audio, "output_dim", d_text, absent=3584)
    cfg.notes.append("a sound is read in whole windows of n_window_infer frames; a shorter last one is not described")
    return Tower(
        name="audio",
        d_model=d_model,
        embedding=front,
        layers=(side_layer(audio, "encoder", d_model, "gelu"),),
        final_norm=None,
        projectors=(Projector(norm=LAYER_NORM, layers=(Dense(name="proj1"), Dense(name="proj2")), activation=act),),
    )
