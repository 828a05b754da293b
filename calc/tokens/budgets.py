"""How many tokens one input of a modality is: formulas on sizes, which read numbers, arrays and symbols alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from calc import checks
from calc.sizes import Size, floor_div, is_array, is_symbolic


def image_patches(height: Size, width: Size, patch: Size, stride: Size | None = None, special: Size = 0) -> Size:
    """Patches of a picture and `special` learned vectors beside them (class token: 1).

    Rows are (height - patch) / stride + 1, rounded down, and columns likewise: a convolution with a kernel of one patch
    (Dosovitskiy et al. 2021, arXiv:2010.11929, section 3.1). stride: None for the patch's own length; AST's is shorter.
    """
    return _fit(height, patch, stride) * _fit(width, patch, stride) + special


def pixels(height: Size, width: Size) -> Size:
    """One token a pixel, its colour the nearest of 512 (ImageGPT: Chen et al. 2020, section 3.3, 32 x 32 pixels)."""
    return height * width


def video_tubes(frames: Size, height: Size, width: Size, patch: Size, tube: Size = 2, special: Size = 0) -> Size:
    """Tubes of `tube` frames by patch by patch pixels (ViViT: Arnab et al. 2021, arXiv:2103.15691, section 3.2)."""
    return _fit(frames, tube, None) * image_patches(height, width, patch) + special


def spectrogram_frames(seconds: Size, rate: Size, hop: Size, window: Size | None = None) -> Size:
    """Frames of sound of `rate` samples a second, one every `hop` samples, rounded down.

    window: only whole windows of so many samples count, (samples - window) / hop + 1; None: the ends are filled up.
    Sources: Whisper's log-mel spectrogram drops the last frame, 30 s are 3,000 (Radford et al. 2022, section 2.2);
    Kaldi's `snip_edges`, which AST uses, counts whole windows.
    """
    samples = _floor(seconds * rate)
    return floor_div(samples, hop) if window is None else _fit(samples, window, hop)


def convolved(length: Size, convolutions: Sequence[tuple[int, int, int]]) -> Size:
    """What convolutions of (kernel, stride, padding) leave of a length, one after the other.

    Each leaves (n + 2 * padding - kernel) / stride + 1 of n, rounded down (torch.nn.Conv1d). Whisper's front is
    (3, 1, 1) and (3, 2, 1): 3,000 frames are 1,500 tokens.
    """
    for kernel, stride, padding in convolutions:
        length = _fit(length + 2 * padding, kernel, stride)
    return length


def codec_tokens(seconds: Size, rate: Size, codebooks: Size = 1) -> Size:
    """Tokens of a neural codec: `rate` frames a second, rounded up, a code of each codebook for every frame.

    EnCodec at 24 kHz has 75 frames a second, and 8 codebooks at 6 kbit/s (Défossez et al. 2022, arXiv:2210.13438); of
    them VALL-E's autoregressive model reads the first alone (Wang et al. 2023, arXiv:2301.02111, section 4.2).
    """
    return _ceil(seconds * rate) * codebooks


def vq_tokens(height: Size, width: Size, downsample: Size, codebooks: Size = 1, special: Size = 0) -> Size:
    """Codes of a picture that an encoder makes `downsample` times smaller on each side.

    CM3Leon: 256 x 256 pixels, downsampled by 8, are 1,024 tokens (Yu et al. 2023, arXiv:2309.02591, section 2.1).
    """
    return floor_div(height, downsample) * floor_div(width, downsample) * codebooks + special


def features(columns: Size, special: Size = 1) -> Size:
    """One vector a column of a table, and the class token (Gorishniy et al. 2021, arXiv:2106.11959, section 3.3)."""
    return columns + special


def trajectory(steps: Size, vectors: Size = 3) -> Size:
    """Return to go, state and action of each step (Decision Transformer: Chen et al. 2021, arXiv:2106.01345)."""
    return steps * vectors


def text_bytes(n_bytes: Size, bytes_per_token: Size) -> Size:
    """Tokens of so many bytes of text, rounded up; the ratio is a tokenizer's on like text, as `tokens FILE` has it."""
    return _ceil(_ratio(n_bytes, bytes_per_token))


def text_words(n_words: Size, tokens_per_word: Size) -> Size:
    """Tokens of so many words, runs of what is not whitespace, rounded up. The ratio is as in `text_bytes`."""
    return _ceil(n_words * tokens_per_word)


def _fit(length: Size, kernel: Size, stride: Size | None) -> Size:
    """How many kernels fit into a length, a stride apart (their own length by default). Errors: Refused if none."""
    fit = floor_div(length, kernel) if stride is None else floor_div(length - kernel, stride) + 1
    return checks.size("kernels, patches or windows along a length", fit)


def _ratio(a: Size, b: Size) -> Size:
    return Fraction(a) / Fraction(b) if isinstance(a, int | Fraction) and isinstance(b, int | Fraction) else a / b


def _floor(value: Size) -> Size:
    return math.floor(value) if not (is_symbolic(value) or is_array(value)) else floor_div(value, 1)


def _ceil(value: Size) -> Size:
    return -_floor(-value)
