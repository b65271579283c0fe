"""Checks that what a config names is there: the model, its chat template, and the first rows of tasks."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import httpx

from rlft.config import PolicyConfig, SourceConfig
from rlft.errors import PolicyError
from rlft.files import why_no_file
from rlft.tasks.fields import FieldError, check_template
from rlft.tasks.reasoning_gym import draw_rows
from rlft.tasks.rows import make_task
from rlft.tasks.sources import BadRow, BadRows, RawRow, describe_source, read_rows
from rlft.training.demonstration_file import iterate_demonstrations

_TEMPLATES = Path(__file__).parent.parent / "harness" / "chat" / "templates"
_LOOK_SECONDS = 5.0  # for each part of one request; transformers tries again for minutes
ROWS = 20
"""How many rows are read beyond the number that `tasks.max_bad_rows` allows to be unusable."""


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


def check_rows(source: SourceConfig, section: str, *, allowed: int, seed: int) -> None:
    """Raise TaskError for a source that is not there, or whose first rows ingestion would refuse.

    `section` is where the source stands in the config, `allowed` how many rows may be unusable, and `seed` is that of a
    generator.
    """
    for name in ("prompt", "answer"):
        check_template(getattr(source, name), f"{section}.{name}")
    count, bad = allowed + ROWS, BadRows(allowed)
    is_drawn = source.source == "reasoning_gym"
    rows = draw_rows(source, seed=seed, expected=count, most=count) if is_drawn else read_rows(source, count=count)
    for raw in islice(rows, count):
        try:
            if isinstance(raw, RawRow):
                make_task(raw, source, environment="")
            else:
                bad.rows.append(raw)
        except FieldError as error:
            bad.rows.append(BadRow(raw.place, str(error)))
    bad.check(describe_source(source))


def check_demonstrations(path: Path) -> None:
    """Raise TaskError for a file of demonstrations that is not there, or whose first rows are no demonstrations."""
    for _ in islice(iterate_demonstrations(path), ROWS):
        pass


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
