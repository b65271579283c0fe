"""A judge that fits a test: a tiny model whose weights are made by hand, which gives every attempt the same score."""

from __future__ import annotations

import string
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rlft.models.tokens import character_tokenizer

CHARACTERS = string.printable


def save_judge(folder: Path, score: float = 0.5) -> Path:
    """Save a model that answers everything with one JSON object, a token of its own, and then its end.

    Attention and MLP add nothing, so that the next token follows from the last one alone: the object from anything,
    and the end (id 1) from the object.
    """
    said = f'{{"why": "so", "score": {score:g}}}'
    tokenizer = character_tokenizer(CHARACTERS, [said])
    size = len(tokenizer)
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        eos_token_id=1,
        pad_token_id=0,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
    answer = tokenizer.convert_tokens_to_ids(said)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        for norm in (model.model.norm, model.model.layers[0].input_layernorm):
            norm.weight.fill_(1.0)
        model.model.embed_tokens.weight[:, 0] = 1.0  # anything
        model.model.embed_tokens.weight[answer] = torch.eye(64)[1]  # the object
        model.lm_head.weight[answer, 0] = 5.0
        model.lm_head.weight[1, 1] = 5.0
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    return folder
