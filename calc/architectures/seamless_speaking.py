"""What speaks in SeamlessM4T: units of speech from a text's vectors, and sound from those."""

from __future__ import annotations

from calc.architectures.config import Config
from calc.spec import Speech, Spoken, UnitWriter, Vocoder


def speech(cfg: Config, *, second: bool) -> Speech:
    """Defaults as in transformers' SeamlessM4Tv2Config; what writes units is as wide as what reads and writes text.

    second: the second version, which writes all units at once.
    """
    for side in ("encoder", "decoder"):
        heads = f"t2u_{side}_attention_heads"
        cfg.multiple("hidden_size", cfg.size("hidden_size"), heads, cfg.size(heads, absent=16))
    n_layers = {side: cfg.size(f"t2u_{side}_layers", absent=6, limit=10**4) for side in ("encoder", "decoder")}
    units = UnitWriter(
        n_units=cfg.size("t2u_vocab_size", absent=10_082),
        n_encoder_layers=n_layers["encoder"],
        n_decoder_layers=n_layers["decoder"],
        d_ff=cfg.size("t2u_encoder_ffn_dim", absent=8192),
        d_ff_decoder=cfg.size("t2u_decoder_ffn_dim", absent=8192),
        spoken=_spoken(cfg) if second else None,
    )
    return Speech(units=units, vocoder=_vocoder(cfg))


def _spoken(cfg: Config) -> Spoken:
    return Spoken(
        n_characters=cfg.size("char_vocab_size", absent=10_943),
        d_read=cfg.size("t2u_variance_predictor_embed_dim", absent=1024),
        d_predictor=cfg.size("t2u_variance_predictor_hidden_dim", absent=256),
        kernel=cfg.size("t2u_variance_predictor_kernel_size", absent=3, limit=10**4),
    )


def _vocoder(cfg: Config) -> Vocoder:
    rates = cfg.numbers("upsample_rates", absent=(5, 4, 4, 2, 2))
    kernels = cfg.numbers("upsample_kernel_sizes", absent=(11, 8, 8, 4, 4))
    residual = cfg.numbers("resblock_kernel_sizes", absent=(3, 7, 11))
    return Vocoder(
        n_units=cfg.size("unit_hifi_gan_vocab_size", absent=10_000),
        d_unit=cfg.size("unit_embed_dim", absent=1280),
        n_speakers=cfg.size("vocoder_num_spkrs", absent=200),
        d_speaker=cfg.size("spkr_embed_dim", absent=256),
        n_languages=cfg.size("vocoder_num_langs", absent=36),
        d_language=cfg.size("lang_embed_dim", absent=256),
        kernel=cfg.size("variance_predictor_kernel_size", absent=3, limit=10**4),
        n_channels=cfg.size("upsample_initial_channel", absent=512),
        rates=rates,
        kernels=kernels,
        residual_kernels=residual,
        dilations=cfg.number_lists("resblock_dilation_sizes", absent=((1, 3, 5),) * 3),
    )
