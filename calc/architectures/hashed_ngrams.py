"""How Qwen4's preview hashes n-grams of tokens: rows of each head's table, and what tokens are multiplied with.

Source: transformers 5.23, models/qwen4_exp/modeling_qwen4_exp.py, Qwen4ExpTextNGramEmbedding and
_build_layer_multipliers.
"""

from __future__ import annotations

from itertools import count, islice

WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""Bases that tell primes below 3.3e24 (Sorenson and Webster 2015, arXiv:1509.00864)."""
MASK = 2**64 - 1


def head_rows(least: int, first: int, heads: int) -> tuple[int, ...]:
    """`heads` primes in a row, the first of them with `first` others between it and `least`."""
    return tuple(islice((each for each in count(least) if _is_prime(each)), first, first + heads))


def multipliers(vocab_size: int, n: int, number: int, seed: int) -> tuple[int, ...]:
    """An odd number for each of n tokens, small enough that none of its products is more than 63 bits."""
    bound = max(1, (2**63 - 1) // vocab_size // 2)
    start = seed + 10007 * number
    return tuple(2 * (_splitmix(start + 0x9E3779B97F4A7C15 * (i + 1)) % bound) + 1 for i in range(n))


def _splitmix(value: int) -> int:
    """splitmix64 of one number (Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195)."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def _is_prime(n: int) -> bool:
    """Miller and Rabin's test with bases that suffice."""
    if n < 2 or any(n % each == 0 for each in WITNESSES):
        return n in WITNESSES
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(_passes(n, base, odd, twos) for base in WITNESSES)


def _passes(n: int, base: int, odd: int, twos: int) -> bool:
    power = pow(base, odd, n)
    if power == 1:
        return True
    for _ in range(twos):
        if power == n - 1:
            return True
        power = power * power % n
    return False
