"""Which weights a judge has that rlft starts: the commit of a model of the hub, or the content of a folder."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from rlft.errors import EnvironmentSetupError

_COUNTS = (".safetensors", ".json", ".jinja", ".model", ".txt")  # endings of what a model is made of
_COMMIT = "commit "


def named_weights(model: str, revision: str | None) -> str:
    """Return `commit HASH` for a model of the hub, and `sha256 HASH` over the names and bytes of a folder's files.

    Nothing but the config of a model of the hub is downloaded. Raises EnvironmentSetupError for one that is not there.
    """
    folder = Path(model)
    if folder.is_dir():
        files = sorted(each for each in folder.iterdir() if each.suffix in _COUNTS and each.is_file())
        stats = [(each, each.stat()) for each in files]
        return f"sha256 {_hash_of(tuple((str(each), stat.st_size, stat.st_mtime_ns) for each, stat in stats))}"
    from transformers import AutoConfig

    try:
        commit = AutoConfig.from_pretrained(model, revision=revision)._commit_hash
    except (OSError, ValueError, KeyError) as cause:
        raise EnvironmentSetupError(
            f"the model {model!r} of the judge is no folder, and not on the hub as far as this machine can see: "
            f"{next(iter(str(cause).strip().splitlines()), type(cause).__name__)}",
            where="reward.spec: judge.model",
            fix="name a folder with config.json, tokenizer and *.safetensors, or a model on the hub",
        ) from cause
    return f"{_COMMIT}{commit or revision or 'unknown'}"


def commit_in(weights: str) -> str | None:
    """Return the commit of a model of the hub; `None` for a folder."""
    return weights.removeprefix(_COMMIT) if weights.startswith(_COMMIT) else None


@lru_cache(maxsize=8)
def _hash_of(files: tuple[tuple[str, int, int], ...]) -> str:
    """Return the sha256 over the files of these paths; sizes and times say whether it is known already."""
    digest = hashlib.sha256()
    for path, size, _ in files:
        digest.update(f"{Path(path).name}\0{size}\0".encode())
        with Path(path).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
