"""wav2vec 2.0 (Baevski et al. 2020, arXiv:2006.11477): raw samples through convolutions into an encoder.

Also HuBERT (Hsu et al. 2021, arXiv:2106.07447), which has no codebooks, WavLM (Chen et al. 2022, arXiv:2110.13900),
whose attention has gated numbers for distances, and UniSpeech (Wang et al. 2021, arXiv:2101.07597) and UniSpeech-SAT
(Chen et al. 2021, arXiv:2110.05752), but for the classes that pre-train them.
"""

from __future__ import annotations

from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.architectures.vit import layer_norm
from calc.errors import Refused
from calc.spec import (
    Attention,
    Buckets,
    Convolution,
    Frames,
    GatedBias,
    LayerGroup,
    Mlp,
    ModelSpec,
    PositionConvolution,
    Projection,
    Quantizer,
)

EPS = 1e-5
ENDINGS = {"ctc": "CTC", "classifier": "SequenceClassification", "frames": "AudioFrameClassification"}
PLAIN = {
    "hubert": ("Hubert", ("ctc", "classifier")),
    "wavlm": ("WavLM", ("ctc", "classifier", "frames")),
    "unispeech": ("UniSpeech", ("ctc", "classifier")),
    "unispeech-sat": ("UniSpeechSat", ("ctc", "classifier", "frames")),
}
"""How the names of a family's classes begin, and its heads, of families whose codebooks no class here has."""
KERNELS, STRIDES, CHANNELS = (10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2), (512,) * 7
SAMPLES = 16_000
"""One second of sound, which is counted where --frames says nothing else: the model has no length of its own."""


def spec(cfg: Config) -> ModelSpec:
    """Norms behind the blocks, or before them where do_stable_layer_norm says so (the large models)."""
    family = cfg.raw["model_type"]
    kind = _kind(cfg, family)
    pre, norm = cfg.flag("do_stable_layer_norm", absent=False), layer_norm(cfg, EPS)
    cfg.only("adapter_attn_dim", None, why="adapters in the layers are not described")
    front = samples(cfg, kind).model_copy(
        update={
            "position_convolution": position_convolution(cfg),
            "norm": None if pre else norm,
        }
    )
    if family == "unispeech-sat":
        # Its class has that vector whether or not anything is masked.
        front = front.model_copy(update={"mask_vector": True})
    d_model, n_heads = cfg.size("hidden_size"), cfg.size("num_attention_heads")
    cfg.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    mixer: Attention | GatedBias = Attention(
        n_heads=n_heads, causal=False, qkv_bias=True, out_bias=True, position="none", softmax="model"
    )
    if family == "wavlm":
        mixer = _gated_bias(cfg, n_heads, d_model // n_heads)
    layer = LayerGroup(
        count=cfg.layers("num_hidden_layers"),
        mixer=mixer,
        channel=Mlp(
            d_ff=cfg.size("intermediate_size"), bias=True, activation=activation(cfg, "hidden_act", absent="gelu")
        ),
        norm=norm,
        placement="pre" if pre else "post",
    )
    return ModelSpec(
        d_model=d_model,
        embedding=front,
        layers=(layer,),
        final_norm=norm if pre else None,
        heads=heads(cfg, kind),
        head=None,
    )


def _kind(cfg: Config, family: str) -> str:
    """What the class does with the encoder's result, in families without codebooks among their classes here."""
    if family not in PLAIN:
        return head_kind(cfg, "Wav2Vec2")
    if family == "hubert":
        cfg.only("feat_proj_layer_norm", True, why="the norm behind the convolutions is always counted")
        cfg.only("conv_pos_batch_norm", False, why="a batch norm before the convolution of positions is not described")
    cfg.only("add_adapter", False, why="the convolutions behind the encoder are not described")
    cfg.only("use_weighted_layer_sum", False, why="a sum over all layers is not described")
    prefix, kinds = PLAIN[family]
    classes = {f"{prefix}For{ENDINGS[kind]}": kind for kind in kinds} | {f"{prefix}Model": "none"}
    return cfg.architecture(classes, usual=f"{prefix}Model")


def _gated_bias(cfg: Config, n_heads: int, d_head: int) -> GatedBias:
    """One table for all layers, which stands in the first. Half of its buckets are of one direction, and half of these
    hold one distance each."""
    n_buckets = cfg.size("num_buckets", absent=320)
    distance = cfg.size("max_bucket_distance", absent=800)
    if n_buckets < 4 or n_buckets % 4:
        raise Refused(f"{cfg.where}num_buckets", "a multiple of 4, two halves for each direction", n_buckets)
    if distance <= n_buckets // 4:
        raise Refused(f"{cfg.where}max_bucket_distance", f"more than num_buckets / 4 = {n_buckets // 4}", distance)
    return GatedBias(n_heads=n_heads, d_head=d_head, buckets=Buckets(n_buckets=n_buckets, max_distance=distance))


def head_kind(cfg: Config, prefix: str) -> str:
    """What the class does with the encoder's result; what no field here describes is refused."""
    cfg.only("add_adapter", False, why="the convolutions behind the encoder are not described")
    cfg.only("use_weighted_layer_sum", False, why="a sum over all layers is not described")
    return cfg.architecture(
        {
            f"{prefix}ForPreTraining": "pretraining",
            f"{prefix}ForCTC": "ctc",
            f"{prefix}ForSequenceClassification": "classifier",
            f"{prefix}ForAudioFrameClassification": "frames",
            f"{prefix}Model": "none",
        },
        usual=f"{prefix}ForPreTraining",
    )


def samples(cfg: Config, kind: str) -> Frames:
    """The convolutions over raw samples, their projection, and in pre-training the codebooks that read them."""
    channels = cfg.numbers("conv_dim", absent=CHANNELS)
    kernels = cfg.numbers("conv_kernel", length=len(channels), absent=KERNELS)
    strides = cfg.numbers("conv_stride", length=len(channels), absent=STRIDES)
    for name, values in (("conv_dim", channels), ("conv_kernel", kernels), ("conv_stride", strides)):
        if not values or 0 in values or len(values) != len(channels):
            raise Refused(f"{cfg.where}{name}", "a list of numbers above 0, one a convolution", str(values))
    bias = cfg.flag("conv_bias", absent=False)
    every = cfg.choice("feat_extract_norm", among={"group": False, "layer": True}, absent=False)
    act = activation(cfg, "feat_extract_activation", absent="gelu")
    convolutions = tuple(
        Convolution(
            name=f"conv{i}",
            n_channels=n,
            kernel=kernel,
            stride=stride,
            bias=bias,
            norm="layer" if every else "channel" if i == 0 else None,
            activation=act,
        )
        for i, (n, kernel, stride) in enumerate(zip(channels, kernels, strides, strict=True))
    )
    masks = cfg.number("mask_time_prob", absent=0.05) > 0 or cfg.number("mask_feature_prob", absent=0.0) > 0
    cfg.notes.append(f"counted for {SAMPLES} samples, one second, where --frames gives no number")
    return Frames(
        n_frames=SAMPLES,
        d_frame=1,
        convolutions=convolutions,
        before=layer_norm(cfg, EPS),
        quantizer=_quantizer(cfg) if kind == "pretraining" else None,
        mask_vector=masks,
    )


def heads(cfg: Config, kind: str, *, words: int = 32, width: int = 256) -> tuple[Projection, ...]:
    """A dense layer on every step or, behind a mean over them, on the sequence. words, width: of the classes that the
    family has, and of what the mean is taken of, where they are absent."""
    match kind:
        case "pretraining":
            return (Projection(name="project_hid", d_out=cfg.size("proj_codevector_dim", absent=256)),)
        case "ctc":
            return (Projection(name="ctc", d_out=cfg.size("vocab_size", absent=words)),)
        case "frames":
            return (Projection(name="classifier", d_out=cfg.labels()),)
        case "classifier":
            width = cfg.size("classifier_proj_size", absent=width)
            inner = Projection(name="projector", d_out=width)
            return inner, Projection(
                name="classifier", d_in=width, d_out=cfg.labels(), per="sequence", pool="mean", reads="projector"
            )
    return ()


def _quantizer(cfg: Config) -> Quantizer:
    n_codebooks = cfg.size("num_codevector_groups", absent=2)
    d_code = cfg.size("codevector_dim", absent=256)
    cfg.multiple("codevector_dim", d_code, "num_codevector_groups", n_codebooks)
    return Quantizer(
        n_codebooks=n_codebooks,
        n_entries=cfg.size("num_codevectors_per_group", absent=320),
        d_code=d_code,
        d_target=cfg.size("proj_codevector_dim", absent=256),
    )


def position_convolution(cfg: Config) -> PositionConvolution:
    """The convolution that stands in for positions."""
    n_groups = cfg.size("num_conv_pos_embedding_groups", absent=16)
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_conv_pos_embedding_groups", n_groups)
    return PositionConvolution(kernel=cfg.size("num_conv_pos_embeddings", absent=128), n_groups=n_groups)
