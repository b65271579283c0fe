"""Checks that the model and its chat template are there, and that the disk has room for the policies to be kept."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

from rlft.config import PolicyConfig
from rlft.errors import PolicyError, StorageError

_TEMPLATES = Path(__file__).parent.parent / "chat" / "templates"
_BYTES = {"float32": 4, "bfloat16": 2}
_MOMENTS, _MASTER = 8, 4
"""Bytes per weight of AdamW's two moments in float32, and of the float32 master copy of a weight in less precision."""


def check_origin(settings: PolicyConfig) -> None:
    """Raise PolicyError for a folder that is not there or holds no model, or, offline, a model not in the cache."""
    if settings.model is None:
        return
    folder = Path(settings.model)
    if folder.is_dir():
        lacks = [name for name in ("config.json", "*.safetensors") if not any(folder.glob(name))]
        if lacks:
            raise PolicyError(
                f"there is no {' and no '.join(lacks)} in the folder {folder}",
                where="policy.model",
                fix="name a folder with config.json, tokenizer and *.safetensors",
            )
    elif settings.model.startswith(("/", ".", "~")) or settings.model.count("/") > 1 or folder.exists():
        raise PolicyError(
            f"there is no folder {settings.model!r} (looked in {Path.cwd()})",
            where="policy.model",
            fix="name a folder with config.json, tokenizer and *.safetensors, or a model of the hub as OWNER/NAME",
        )
    elif _is_offline() and _in_cache(settings) is None:
        revision = f" at {settings.revision}" if settings.revision else ""
        raise PolicyError(
            f"the model {settings.model!r}{revision} is not in the hub's cache, and HF_HUB_OFFLINE forbids to fetch it",
            where="policy.model",
            fix=f"unset HF_HUB_OFFLINE, run `hf download {settings.model}` where there is a network, or name a folder",
        )


def check_chat_template(settings: PolicyConfig) -> None:
    """Raise PolicyError for a template that is neither a shipped one nor a file."""
    name = settings.chat_template
    shipped = sorted(path.stem for path in _TEMPLATES.glob("*.jinja"))
    if name is not None and name not in shipped and not Path(name).expanduser().is_file():
        raise PolicyError(
            f"{name!r} is no template, and there is no such file",
            where="policy.chat_template",
            fix=f"name a file, or one of {', '.join(shipped)}",
        )


def check_room(settings: PolicyConfig, rounds: int, folder: Path) -> None:
    """Raise StorageError when `folder` has no room for the policies that `policy.keep` certainly leaves there.

    These are the weights of the first policy, and weights and optimizer state of the newest `keep.last` after `rounds`
    rounds. Adapters and models from scratch are small and not counted. What lies in the folder already may be these
    very policies, so its size counts as room.
    """
    weights = 0 if settings.lora or settings.model is None else _count_weights(settings)
    first = _BYTES[settings.dtype] * weights
    trained = first + weights * (_MOMENTS + (_MASTER if settings.dtype != "float32" else 0))
    kept = min(settings.keep.last, rounds)
    needed = first + kept * trained
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(place).free
    if needed > free and needed > free + _bytes_in(folder):
        raise StorageError(
            f"{kept + 1} policies of {weights / 1e9:.2g} B weights take at least {needed / 2**30:.1f} GiB there, "
            f"{free / 2**30:.1f} GiB are free",
            where=str(place),
            fix="make room, set RLFT_HOME to another disk, lower policy.keep.last, or train an adapter (policy.lora)",
        )


def _is_offline() -> bool:
    from huggingface_hub import constants

    return constants.HF_HUB_OFFLINE


def _in_cache(settings: PolicyConfig) -> Path | None:
    """Return the folder of a Hub model in the local cache, or `None` if it is not there."""
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(settings.model or "", "config.json", revision=settings.revision)
    except ValueError:  # the text is no name of a Hub model
        return None
    return Path(found).parent if isinstance(found, str) else None


def _count_weights(settings: PolicyConfig) -> int:
    """Return how many weights the model has, by the headers of its files; 0 if they are not on this machine yet."""
    assert settings.model is not None
    local = Path(settings.model)
    folder = local if local.is_dir() else _in_cache(settings)
    return sum(_count_in(file) for file in folder.glob("*.safetensors")) if folder else 0


def _count_in(file: Path) -> int:
    """Return how many weights a safetensors file has, without reading them.

    It begins with eight bytes, the length of a JSON header that holds every shape
    (https://huggingface.co/docs/safetensors).
    """
    with file.open("rb") as content:
        header = json.loads(content.read(int.from_bytes(content.read(8), "little")))
    return sum(math.prod(each["shape"]) for name, each in header.items() if name != "__metadata__")


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
