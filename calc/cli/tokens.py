"""`tokens`: how many tokens files are."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click

from calc.cli import options
from calc.cli.options import Length, Tokens
from calc.errors import Refused, printable
from calc.output.progress import Progress
from calc.output.tables import Table, emit
from calc.reading.numbers import Number
from calc.spec.run import common_length
from calc.tokens.counting import Tally, count_file
from calc.tokens.encoders import Encoder, load_encoder
from calc.tokens.vocabularies import Vocabulary, read_sample, trade
from calc.units import si


@click.command(short_help="Tokens of files, and what a vocabulary's size trades off.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--tokenizer", metavar="FILE", help="A tokenizer.json or a .tiktoken file; needs the extra tokens.")
@click.option("--bytes-per-token", type=Number(above=0), help="Instead: so many bytes a token.")
@click.option("--pattern", metavar="NAME", help="How to cut text: gpt2, gpt4, qwen2, gpt4o; for ranks or training.")
@click.option("--train-vocab", type=Tokens(), metavar="V", help="Train vocabularies up to V tokens on a sample.")
@click.option("--model", metavar="MODEL", help="With --train-vocab: whose table and head have that size.")
@click.option("--seq", type=Length(), help="With --train-vocab: tokens in each sequence. [default: as for `flops`]")
@options.output
def tokens(files: tuple[str, ...], train_vocab: int | None, fmt: str, **given: Any) -> None:
    """Count the tokens of each FILE, text in UTF-8, and of all together, on all cores.

    Bytes that are not UTF-8 count as U+FFFD; special tokens that a tokenizer would put around a text do not count.
    Words are runs of what is not whitespace.

    With --train-vocab, byte-level BPE is trained on up to 16 MiB of the files, and bytes a token are measured on a
    tenth of them that is left out. The parameters and FLOPs are those of MODEL with each size.

    Lengths elsewhere (--seq, --context, --frames) take what other data comes to in place of a number:
    tokens:image=HxW,patch=P[,stride=S,special=N] | pixels=HxW | video=FxHxW,patch=P[,tube=T] |
    sound=SECONDS,rate=R,hop=H[,window=W,conv=K:S:P+…] | frames=N,conv=K:S:P+… |
    codec=SECONDS,rate=FRAMES[,codebooks=N] | vq=HxW,downsample=F[,codebooks=N] | features=N | trajectory=STEPS |
    bytes=N,bytes_per_token=X | words=N,tokens_per_word=X.

    \b
    Examples:
      python -m calc tokens path/to/text.txt --tokenizer path/to/tokenizer.json
      python -m calc tokens path/to/text.txt \\
          --tokenizer path/to/cl100k_base.tiktoken --json
      python -m calc tokens README.md --bytes-per-token 4.2
      python -m calc tokens path/to/text.txt --train-vocab 32768 --model gpt2
      python -m calc flops gpt2 --seq tokens:image=224x224,patch=16,special=1
    """
    if train_vocab is not None:
        _trade(files, train_vocab, fmt, **given)
        return
    other = next((name for name in ("model", "seq") if given[name] is not None), None)
    if other is not None:
        raise Refused(f"--{other}", "--train-vocab beside it", given[other])
    tallies = _count(files, _encoder(given["tokenizer"], given["bytes_per_token"], given["pattern"]))
    total = Tally("total")
    for name in ("size", "n_bytes", "tokens", "n_words", "n_replaced"):
        setattr(total, name, sum(getattr(each, name) for each in tallies))
    shown = [*tallies, *([total] if len(tallies) > 1 else [])]
    names = ("file", "tokens", "bytes", "words", "bytes a token", "tokens a word")
    emit([_record(each) for each in shown], [Table(names, [_row(each) for each in shown])], fmt)


def _encoder(tokenizer: str | None, bytes_per_token: float | None, pattern: str | None) -> Encoder | float:
    if (tokenizer is None) == (bytes_per_token is None):
        found = "none" if tokenizer is None else "both"
        raise Refused("--tokenizer", "either --tokenizer FILE or --bytes-per-token X", found)
    if bytes_per_token is None:
        return load_encoder(str(tokenizer), pattern)
    if pattern is not None:
        raise Refused("--pattern", "a .tiktoken file or --train-vocab beside it", pattern)
    return bytes_per_token


def _count(files: tuple[str, ...], encoder: Encoder | float) -> list[Tally]:
    """Every file's tally. Interrupted, it says on stderr how far it came."""
    progress = Progress()
    tallies = [Tally(path) for path in files]
    done = 0
    try:
        for tally in tallies:
            count_file(tally, encoder, lambda path, *done: progress(f"bytes of {printable(path)}", *done))
            done += 1
    except KeyboardInterrupt:
        progress.close()
        here, counted = tallies[min(done, len(files) - 1)], sum(each.tokens for each in tallies)
        where = f"{here.n_bytes:,} of {here.size:,} bytes of {here.path}, {done} of {len(files)} files whole"
        click.echo(printable(f"note: {counted:,} tokens so far: {where}"), err=True)
        raise
    progress.close()
    for tally in tallies:
        if tally.n_replaced:
            what = f"note: {tally.path}: what is not UTF-8 counts as U+FFFD, {tally.n_replaced:,} times"
            click.echo(printable(what), err=True)
    return tallies


def _record(tally: Tally) -> dict[str, Any]:
    return {
        "file": tally.path,
        "tokens": tally.tokens,
        "bytes": tally.n_bytes,
        "words": tally.n_words,
        "bytes_per_token": tally.n_bytes / tally.tokens if tally.tokens else None,
        "tokens_per_word": tally.tokens / tally.n_words if tally.n_words else None,
        "replaced": tally.n_replaced,
    }


def _row(tally: Tally) -> tuple[str, ...]:
    record = _record(tally)
    numbers = [f"{record[name]:,}" for name in ("tokens", "bytes", "words")]
    ratios = [record[name] for name in ("bytes_per_token", "tokens_per_word")]
    return printable(tally.path), *numbers, *("–" if ratio is None else f"{ratio:.3f}" for ratio in ratios)


def _trade(files: tuple[str, ...], vocab_size: int, fmt: str, **given: Any) -> None:
    for name in ("tokenizer", "bytes_per_token"):
        if given[name] is not None:
            raise Refused(f"--{name.replace('_', '-')}", "no --train-vocab beside it", given[name])
    if given["model"] is None:
        raise Refused("--model", "a model beside --train-vocab", "none")
    spec = options.read_model(given["model"])
    seq = given["seq"] or common_length([spec])
    rows = trade(read_sample(files), vocab_size, spec, seq, given["pattern"] or "gpt4", bars=sys.stderr.isatty())
    columns = (
        "tokens",
        "bytes a token",
        "parameters",
        "of table and head",
        "FLOP a token",
        "of the head",
        "FLOP a byte",
    )
    title = f"{spec.name} in sequences of {seq:,} tokens, by the size of its vocabulary"
    note = "bytes a token of a tenth of the sample that was not trained on; FLOPs of a forward pass"
    emit([_vocabulary(each) for each in rows], [Table(columns, [_sizes(each) for each in rows], title, note)], fmt)


def _vocabulary(each: Vocabulary) -> dict[str, Any]:
    return asdict(each) | {"flops_per_byte": each.flops_per_byte}


def _sizes(each: Vocabulary) -> tuple[str, ...]:
    return (
        f"{each.vocab_size:,}",
        f"{each.bytes_per_token:.3f}",
        f"{each.params:,}",
        f"{each.vocab_params / each.params:.1%}",
        si(each.flops, "FLOP"),
        f"{each.head_flops / each.flops:.1%}",
        si(each.flops_per_byte, "FLOP"),
    )
