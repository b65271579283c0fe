"""A tiny model with random weights, and counts of words, as embeddings for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

WORDS = ("cat", "dog", "moon", "sun", "red")


class Counts:
    """Counts how often each word of `WORDS` occurs, beside a constant so that no vector is zero, scaled to norm 1."""

    fingerprint = "counts"

    def documents(self, texts):
        counts = np.array([[*(text.lower().count(word) for word in WORDS), 0.1] for text in texts], dtype=np.float32)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)

    def query(self, text):
        return self.documents([text])[0]


def save_tiny_model(folder: Path, seed: int = 0) -> Path:
    """A BERT of one layer and its tokenizer of letters, as `save_pretrained` writes them."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    letters = {token: number for number, token in enumerate(["[PAD]", "[UNK]", *"abcdefghijklmnopqrstuvwxyz "])}
    plain = Tokenizer(models.WordLevel(letters, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(letters), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=32,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return folder
