"""A tiny Llama with its tokenizer, made on the spot: weights of no use, of which a real engine makes real tokens."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

LETTERS = "abcdefghijklmnop"
SPECIAL = ("<s>", "</s>", "<unk>")
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
}


def words() -> list[str]:
    """All words of its language, a token each."""
    return ["".join(pair) for pair in itertools.product(LETTERS, repeat=2)]


def make(folder: Path, seed: int = 0) -> None:
    """Write a config, weights and a tokenizer of one token a word. Imports torch, transformers and tokenizers."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate((*SPECIAL, *words()))}
    plain = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL[2]))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, bos_token=SPECIAL[0], eos_token=SPECIAL[1], unk_token=SPECIAL[2], pad_token=SPECIAL[1]
    )
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    ends = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    config = LlamaConfig.from_dict({"vocab_size": len(vocabulary), **ends, **SIZES})
    model = LlamaForCausalLM(config)
    # An answer ends when it is as long as was asked for, as benchmarks of servers have it.
    model.lm_head.weight.data[1] = model.lm_head.weight.data[3:].mean(0)
    model.save_pretrained(folder)


def prompt(tokens: int, seed: int) -> str:
    """Words of its language, so many."""
    draw = random.Random(seed)
    return " ".join(draw.choices(words(), k=tokens))
