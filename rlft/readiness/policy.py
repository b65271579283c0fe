"""Checks that the model and its chat template are there, and that the disk has room for the policies to be kept."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import httpx
import psutil

from rlft.config import FromScratchConfig, PolicyConfig
from rlft.errors import PolicyError, StorageError
from rlft.files import why_no_file
from rlft.readiness.device import why_no_gpu

_TEMPLATES = Path(__file__).parent.parent / "harness" / "chat" / "templates"
_LOOK_SECONDS = 5.0  # for each part of one request; transformers tries again for minutes
_BYTES = {"float32": 4, "bfloat16": 2}
_MOMENTS, _MASTER = 8, 4
"""Bytes per weight of AdamW's two moments in float32, and of the float32 master copy of a weight in less precision."""


def check_origin(settings: PolicyConfig, where: str = "policy.model") -> None:
    """Raise PolicyError for a folder that is not there or holds no model, or a model that is not to be had of the hub.

    The hub is asked once, within seconds, for a model that is not in its cache. The error names the setting `where`.
    """
    if settings.model is None:
        return
    folder = Path(settings.model)
    if folder.is_dir():
        lacks = [name for name in ("config.json", "*.safetensors") if not any(folder.glob(name))]
        if lacks:
            raise PolicyError(
                f"there is no {' and no '.join(lacks)} in the folder {folder}",
                where=where,
                fix="name a folder with config.json, tokenizer and *.safetensors",
            )
    elif settings.model.startswith(("/", ".", "~")) or settings.model.count("/") > 1 or folder.exists():
        raise PolicyError(
            f"there is no folder {settings.model!r} (looked in {Path.cwd()})",
            where=where,
            fix="name a folder with config.json, tokenizer and *.safetensors, or a model of the hub as OWNER/NAME",
        )
    elif _in_cache(settings) is None and (reason := _why_not_fetched(settings)):
        revision = f" at {settings.revision}" if settings.revision else ""
        raise PolicyError(
            f"the model {settings.model!r}{revision} is not in the hub's cache, and {reason}",
            where=where,
            fix=f"mend that, run `hf download {settings.model}` where there is a network, or name a folder",
        )


def check_chat_template(settings: PolicyConfig) -> None:
    """Raise PolicyError for a template that is neither a shipped one nor a file."""
    name = settings.chat_template
    shipped = sorted(path.stem for path in _TEMPLATES.glob("*.jinja"))
    if name is not None and name not in shipped and (problem := why_no_file(Path(name))):
        raise PolicyError(
            f"{name!r} is no template that rlft ships, and as a path: {problem}",
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


def check_memory(settings: PolicyConfig) -> None:
    """Raise PolicyError for a model that this machine's memory certainly does not hold while it is trained.

    Counted are weights, gradients and AdamW's moments, of a model from scratch or of one that stays on the CPU; what
    activations and samples take comes on top.
    """
    scratch = settings.from_scratch
    on_cpu = settings.device == "cpu" or (settings.device == "auto" and why_no_gpu() is not None)
    weights = _count_drawn(scratch) if scratch else _count_weights(settings) if on_cpu else 0
    each = _BYTES[settings.dtype] + (0 if settings.lora else _BYTES[settings.dtype] + _MOMENTS)
    needed, there = weights * each, memory_bytes()
    if needed > there:
        smaller = "lower its hidden_size, intermediate_size or num_hidden_layers" if scratch else "name a smaller model"
        raise PolicyError(
            f"training {weights / 1e9:.2g} B weights takes at least {needed / 2**30:,.0f} GiB of memory, this machine "
            f"has {there / 2**30:,.0f}",
            where="policy.from_scratch" if scratch else "policy.model",
            fix=smaller if scratch or settings.lora else f"{smaller}, or train an adapter (policy.lora)",
        )


def memory_bytes() -> int:
    """Return how many bytes of memory this process may use: the machine's with its swap space, or its cgroup's."""
    here = psutil.virtual_memory().total + psutil.swap_memory().total
    try:
        return min(here, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no cgroup, or one without a limit ("max")
        return here


def _count_drawn(scratch: FromScratchConfig) -> int:
    """Return how many weights a model from scratch has in the matrices of its layers and its embedding."""
    matrices = 2 if scratch.architecture == "gpt2" else 3  # of an MLP
    width = scratch.hidden_size
    layer = 4 * width**2 + matrices * width * scratch.intermediate_size
    positions = scratch.max_position_embeddings if scratch.architecture == "gpt2" else 0
    return scratch.num_hidden_layers * layer + width * (len(set(scratch.characters)) + positions)


def _why_not_fetched(settings: PolicyConfig) -> str | None:
    """Return why a model cannot be fetched from the hub, as far as one request for its config says."""
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.utils import build_hf_headers

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE forbids to fetch it"
    try:
        address = hf_hub_url(settings.model or "", "config.json", revision=settings.revision)
        answer = httpx.head(address, headers=build_hf_headers(), timeout=_LOOK_SECONDS)
    except (httpx.HTTPError, ValueError) as cause:  # ValueError: the text is no name of a Hub model
        return f"the hub ({constants.ENDPOINT}) was not reached: {cause}"
    # A hub that is busy may answer the run, and one without this file has another.
    refused = answer.status_code in (401, 403, 404) and answer.headers.get("x-error-code") != "EntryNotFound"
    return f"the hub refuses it: {answer.headers.get('x-error-message', answer.status_code)}" if refused else None


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
