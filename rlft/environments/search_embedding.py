"""Embeds texts as vectors, by a model of the transformers library."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from rlft.files import expanded

Vectors = NDArray[np.float32]
_BATCH = 32  # texts


class ModelEmbedding:
    """Averages a model's last hidden states over a text's tokens and scales them to norm 1 (arXiv:1908.10084).

    It is an `Embedding` of `rlft.environments.search_index`.
    """

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
        max_tokens: int = 512,
    ) -> None:
        """Load `model`, a folder or a name on the Hub (at `revision`), to the CPU in float32.

        Texts are cut after `max_tokens` tokens. Some models need prefixes, such as "query: " and "passage: ".
        """
        folder = _folder(model, revision)
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self._model: Any = AutoModel.from_pretrained(folder, dtype=torch.float32, use_safetensors=True).eval()
        longest = getattr(self._model.config, "max_position_embeddings", None) or max_tokens
        self._max_tokens = min(max_tokens, longest)
        self._query_prefix, self._document_prefix = query_prefix, document_prefix
        settings = repr([query_prefix, document_prefix, self._max_tokens])
        self.fingerprint = hashlib.sha256(f"{_hash_folder(folder)} {settings}".encode()).hexdigest()

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of documents, (texts, width)."""
        batches = [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]
        return np.concatenate([self._embed([self._document_prefix + text for text in batch]) for batch in batches])

    def query(self, text: str) -> Vectors:
        """Return the vector of a query, (width,)."""
        return self._embed([self._query_prefix + text])[0]

    @torch.inference_mode()
    def _embed(self, texts: list[str]) -> Vectors:
        batch = self._tokenizer(texts, padding=True, truncation=True, max_length=self._max_tokens, return_tensors="pt")
        hidden = self._model(**batch).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        return torch.nn.functional.normalize(mean, dim=-1).numpy()


def cached_vectors(file: Path, make: Callable[[], Vectors]) -> Vectors:
    """Return the vectors that a file holds; if it is not there, make them and write it."""
    if file.is_file():
        return np.load(file, allow_pickle=False)
    vectors = make()
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".npy", delete=False) as whole:
        np.save(whole, vectors, allow_pickle=False)
    os.replace(whole.name, file)  # atomic: another process never sees half a file
    return vectors


def _folder(model: str, revision: str | None) -> Path:
    """Return the folder of a model, downloaded from the Hub unless `model` is a folder already."""
    if expanded(model).is_dir():
        return expanded(model)
    from huggingface_hub import snapshot_download

    return Path(
        snapshot_download(model, revision=revision, allow_patterns=["*.json", "*.txt", "*.model", "*.safetensors"])
    )


def _hash_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.iterdir() if path.suffix in (".json", ".txt", ".model", ".safetensors")):
        digest.update(file.name.encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
