"""Whether the model is there, and whether the disk holds what will be kept of it."""

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
"""Bytes of AdamW's two moments for each weight, and of the float32 master beside a shorter one."""


def check_origin(settings: PolicyConfig) -> None:
    """Raises PolicyError for a folder that holds no model, and offline for one of the hub that is not in its cache."""
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
    """Raises PolicyError for a template that is neither a shipped one nor a file."""
    name = settings.chat_template
    shipped = sorted(path.stem for path in _TEMPLATES.glob("*.jinja"))
    if name is not None and name not in shipped and not Path(name).expanduser().is_file():
        raise PolicyError(
            f"{name!r} is no template, and there is no such file",
            where="policy.chat_template",
            fix=f"name a file, or one of {', '.join(shipped)}",
        )


def check_room(settings: PolicyConfig, rounds: int, folder: Path) -> None:
    """Raises StorageError when `folder` has no room for the policies that `policy.keep` certainly leaves there.

    That is the first and the newest ones, all weights and optimizer state of each. Adapters and models from scratch
    are small, and what lies in the folder already may be those very policies: neither is held against the disk.
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
    """The folder of a hub's model in the cache."""
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(settings.model or "", "config.json", revision=settings.revision)
    except ValueError:  # no name that the hub could have
        return None
    return Path(found).parent if isinstance(found, str) else None


def _count_weights(settings: PolicyConfig) -> int:
    """How many numbers the model has, by the headers of its files; 0 where they are not on this machine yet."""
    assert settings.model is not None
    local = Path(settings.model)
    folder = local if local.is_dir() else _in_cache(settings)
    return sum(_count_in(file) for file in folder.glob("*.safetensors")) if folder else 0


def _count_in(file: Path) -> int:
    """Numbers in a safetensors file: eight bytes with the length of a JSON header that holds every shape."""
    with file.open("rb") as content:
        header = json.loads(content.read(int.from_bytes(content.read(8), "little")))
    return sum(math.prod(each["shape"]) for name, each in header.items() if name != "__metadata__")


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
