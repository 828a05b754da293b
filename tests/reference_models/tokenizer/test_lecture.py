"""What the fourth lecture says of tokens."""

from __future__ import annotations

from reference_models.tokenizer import PATTERNS, Tokenizer, pair_counts, pre_tokenize, train
from tests.reference_models.tokenizer.published import gpt2

SENTENCE = "Hello world I've learned to loveee! tokenization, I'M NOW THE #1Fan "
CODE = 'for i in range(10):\n    for j in range(10):\n        print("Hello!")\n'


def numbers(text: str) -> tuple[int, ...]:
    """The notes' alphabet: a is 1, b is 2, …, so the first new token is 27."""
    return tuple(ord(letter) - ord("a") + 1 for letter in text)


def test_the_worked_example() -> None:
    text = numbers("aaabdaaabac")
    assert text == (1, 1, 1, 2, 4, 1, 1, 1, 2, 1, 3)
    names = {"aa": 4, "ab": 2, "bd": 1, "da": 1, "ba": 1, "ac": 1}
    assert pair_counts({text: 1}) == {numbers(pair): count for pair, count in names.items()}
    vocabulary = train([text], 30, n_symbols=27)
    assert vocabulary.merges == [(1, 1), (1, 2), (27, 28)]
    assert vocabulary.spellings[27:] == [numbers("aa"), numbers("ab"), numbers("aaab")]


def test_its_ids_are_less_than_half_the_letters() -> None:
    def shifted(token: int) -> int:
        """A token of the notes among bytes: letters at their code, new tokens from 256 on."""
        return token + ord("a") - 1 if token < 27 else token - 27 + 256

    merges = [(shifted(left), shifted(right)) for left, right in [(1, 1), (1, 2), (27, 28)]]
    ids = Tokenizer(merges, pattern=None).encode("aaabdaaabac")
    assert ids == [shifted(token) for token in (29, 4, 29, 1, 3)]
    assert len(ids) < len("aaabdaaabac") / 2


def test_the_other_spelling_is_another_text() -> None:
    """Four a's in the middle, as most slides print it, have five pairs "aa", not four."""
    assert pair_counts({numbers("aaabdaaaabac"): 1})[1, 1] == 5


def test_bytes_of_characters() -> None:
    assert Tokenizer([]).encode("G") == [71]
    assert Tokenizer([]).encode("ü") == [195, 188]


def test_half_a_character_is_replaced() -> None:
    assert Tokenizer([]).decode([0x80]) == "\ufffd"


def test_the_sentence_in_pieces() -> None:
    """As printed, but that the notes cut two words as merges would, and not the pattern."""
    assert pre_tokenize(SENTENCE, PATTERNS["gpt2"]) == [
        "Hello", " world", " I", "'ve", " learned", " to", " loveee", "!", " tokenization", ",", " I", "'", "M",
        " NOW", " THE", " #", "1", "Fan", " ",
    ]  # fmt: skip


def test_only_gpt4_ignores_case_of_contractions() -> None:
    assert "'M" not in pre_tokenize(SENTENCE, PATTERNS["gpt2"])
    assert "'M" in pre_tokenize(SENTENCE, PATTERNS["gpt4"])


def test_digits_in_groups_of_up_to_three() -> None:
    assert pre_tokenize("1999", PATTERNS["gpt2"]) == ["1999"]
    assert pre_tokenize("1999", PATTERNS["gpt4"]) == ["199", "9"]
    assert pre_tokenize("12345678", PATTERNS["gpt4"]) == ["123", "456", "78"]


def test_merges_across_pieces_make_junk() -> None:
    """Without cuts "o w" becomes a token of its own; with them no token holds a space but in front."""
    texts = ["hello world, so we go with two words to work"] * 3
    free = Tokenizer.trained(texts, 290, pattern=None)
    cut = Tokenizer.trained(texts, 290)

    def inside(tokenizer: Tokenizer) -> list[bytes]:
        spelled = map(bytes, tokenizer.vocabulary.spellings)
        return [each for each in spelled if b" " in each.lstrip(b" ")]

    assert b"o w" in inside(free)
    assert inside(cut) == []


def test_spaces_of_code_are_merged_where_the_corpus_has_code() -> None:
    """The pattern keeps indentation together in both; whether it is one token is a matter of what was trained on."""
    prose = Tokenizer.trained(["for all the people in the range of it"] * 3, 300, PATTERNS["gpt4"])
    code = Tokenizer.trained([CODE] * 3, 320, PATTERNS["gpt4"])
    assert len(prose.encode(" " * 7)) == 7
    assert len(code.encode(" " * 7)) == 1


def test_gpt2s_counts() -> None:
    """With OpenAI's merges: 32 tokens of code, each space of the indentation one, as printed; 14, not 15, of prose."""
    ours, _ = gpt2()
    assert len(ours.encode(CODE)) == 32
    assert [len(ours.encode(" " * n)) for n in (1, 4, 8)] == [1, 4, 8]
    assert len(ours.encode("Hello everyone, welcome to lecture 19 of 11-X85 class!")) == 14
    assert len(ours.encode("大家好，欢迎来到11-X85班第19讲！")) == 34
    assert len(ours.encode("1999")) == 1
    assert [ours.decode([token]) for token in ours.encode(" tokenization")] == [" token", "ization"]
