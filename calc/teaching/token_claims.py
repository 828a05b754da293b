"""What the fourth lecture's notes print of tokens. Their counts are recorded: the product has no vocabularies."""

from __future__ import annotations

from calc.reading.files import parse_toml, read_text
from calc.spec.catalogue import HARDWARE
from calc.teaching.claim import Claim

RECORDED = HARDWARE.parent / "published" / "lecture_counts.toml"
_COUNTED = "counted with OpenAI's vocabularies (encoder.json and vocab.bpe, cl100k_base.tiktoken)"
_MANDARIN = "mandarin, as printed for GPT-2"
_FACTS = parse_toml(read_text(RECORDED), str(RECORDED))


def _tokens(name: str, vocabulary: str) -> float:
    """The recorded count of a text."""
    return next(float(text[vocabulary]) for text in _FACTS["tokens"] if text["name"] == name)


TOKENS = (
    Claim(
        4,
        "the example of BPE is aaabdaaaabac, whose 'aa' counts 4",
        "that has five pairs 'aa'; the counts and the result XdXac are those of aaabdaaabac, as the ids print it",
        stated="wrong",
    ),
    Claim(
        4,
        "aaabdaaabac becomes XdXac, [29, 4, 29, 1, 3], less than half as long",
        "5 of 11; ties go to the lower ids, as `reference_models.tokenizer` trains it",
    ),
    Claim(
        4,
        "Unicode has 160K characters",
        f"{_FACTS['unicode']['characters']:,} are assigned in Unicode {_FACTS['unicode']['version']} (September 2025)",
        160e3,
        recorded=float(_FACTS["unicode"]["characters"]),
    ),
    Claim(4, "G is the byte 71, ü the bytes 195 and 188", "UTF-8: 0x47, 0xC3 0xBC"),
    Claim(
        4,
        "GPT-2's pattern cuts 'tokeni' + 'zation'",
        f"the pattern leaves ' tokenization' whole; merging makes ' token' + 'ization' of it, {_COUNTED}",
        stated="wrong",
    ),
    Claim(
        4,
        "GPT-2's pattern does not ignore case: I'M is I + ' + M",
        "its contractions are in lower case (gpt-2, src/encoder.py, says so itself); GPT-4's are in either",
    ),
    Claim(
        4,
        "Python code: 32 tokens of GPT-2",
        f"{_COUNTED}, its last line break included",
        32,
        recorded=_tokens("code", "gpt2"),
    ),
    Claim(4, "Python code: 20 tokens of GPT-4", _COUNTED, 20, recorded=_tokens("code", "gpt4")),
    Claim(
        4,
        "GPT-2 makes each space of code a token",
        "both patterns keep indentation together; GPT-2's vocabulary has no token of two spaces, GPT-4's has",
    ),
    *(
        Claim(
            4,
            f"'Hello everyone, … 11-X85 class!': 15 tokens of {name}",
            _COUNTED,
            15,
            recorded=_tokens("english", vocabulary),
        )
        for name, vocabulary in (("GPT-2", "gpt2"), ("GPT-4", "gpt4"))
    ),
    Claim(
        4,
        "the same in Mandarin: 34 tokens of GPT-2",
        f"{_COUNTED}; {_tokens(_MANDARIN, 'gpt2') / _tokens('english', 'gpt2'):.1f} times the English",
        34,
        recorded=_tokens(_MANDARIN, "gpt2"),
    ),
    Claim(
        4,
        "the same in Mandarin: 22 tokens of GPT-4",
        f"{_COUNTED}; the text printed for it is two characters longer than GPT-2's, which has "
        f"{_tokens(_MANDARIN, 'gpt4'):.0f}",
        22,
        recorded=_tokens("mandarin, as printed for GPT-4", "gpt4"),
    ),
    Claim(
        4,
        "GPT-4 makes 19 + 99 of 1999",
        "digits are cut from the left in threes: 199 + 9 (cl100k_base's \\p{N}{1,3})",
        stated="wrong",
    ),
    Claim(
        4,
        "GPT-4 has 258 + 100K = 100,258 tokens, 2 of them special",
        "256 bytes, 100,000 merges and 5 special tokens, the last of them 100,276 (tiktoken, openai_public.py)",
        stated="wrong",
    ),
    Claim(
        4,
        "merging across the pattern's cuts fills the vocabulary with junk such as 'o w'",
        "trained without cuts, `reference_models.tokenizer` learns just that",
    ),
)
