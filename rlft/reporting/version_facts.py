"""What is known of a version when it is registered, the licence of its base model and what its reward pays among it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rlft.blocks import Block
from rlft.config import RewardConfig
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.several import Several
from rlft.texts.secrets import hide, redact
from rlft.types import EvaluationReport

logger = logging.getLogger(__name__)
_LONGEST = 1_000_000  # characters of a card that are read


@dataclass(frozen=True, slots=True)
class Licence:
    """Names a licence as the Hub does: an id such as `apache-2.0`, or `other` with a name and an address."""

    id: str
    name: str = ""
    link: str = ""


def read_licence(card: Path) -> Licence | None:
    """Return the licence that the front matter of a model card names; `None` if it is not there or names none."""
    try:
        with card.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_LONGEST)
    except OSError:
        return None
    if not text.startswith("---"):
        return None
    try:
        front: Any = yaml.safe_load(text[3:].split("\n---", 1)[0])
    except (yaml.YAMLError, ValueError, RecursionError):
        logger.warning("%s: its front matter cannot be read, so the licence of the base model is not known", card)
        return None
    named = front.get("license") if isinstance(front, dict) else None
    if isinstance(named, list):  # the Hub takes a list, too
        named = named[0] if named else None
    if not isinstance(named, str) or not named:
        return None
    more = {key: front.get(f"license_{key}") for key in ("name", "link")}
    return Licence(named, **{key: value for key, value in more.items() if isinstance(value, str)})


def licence_of(base: str | None, folder: Path | None, revision: str | None = None) -> Licence | None:
    """Return the licence of a base model: by the card in its folder, else by that of the Hub, asked for a few seconds.

    `None` if neither names one.
    """
    if base is None:
        return None
    if folder is not None and (found := read_licence(folder / "README.md")) is not None:
        return found
    if Path(base).exists():
        return None
    from huggingface_hub import hf_hub_download

    try:
        return read_licence(Path(hf_hub_download(base, "README.md", revision=revision, etag_timeout=5)))
    except Exception as cause:  # whatever the Hub, a proxy or the network throws: a card is made without it
        logger.info("the licence of %s is not known: %s", base, cause)
        return None


@dataclass(frozen=True, slots=True)
class Facts:
    """Holds what is known of a version.

    `name` is that of the registered model and `run_name` that of the run in ZenML, `run_id` its id in MLflow. `policy`
    is the contents of `policy.json`, `shown` those of `context.json`, `config` the run's settings. `tags` are those of
    the run, and `code` says exactly what ran: commits, fingerprints, versions of packages. `reports` are the
    evaluations of the arms (`base`, `warm_start`, `trained`, `champion`, `constant`) by split, `audit` the report of
    the reward audit, if there was one.

    `source` says in one line where the tasks come from, `sizes` how many each split has, `fingerprint` which they are.
    `reward` are paragraphs on what the reward pays, `results` what came of the run, `simpler`
    those on whether something simpler would do, and `reasons` those of the decision on promotion. `caveats` say what
    the results do not show. All are plain text.
    """

    name: str
    run_name: str
    run_id: str
    policy: Mapping[str, Any]
    shown: Mapping[str, Any]
    config: Mapping[str, Any]
    tags: Mapping[str, str]
    reports: Mapping[str, Mapping[str, EvaluationReport]]
    source: str
    sizes: Mapping[str, int]
    fingerprint: str
    reward: Sequence[str]
    results: Sequence[Block]
    simpler: Sequence[str] = ()
    reasons: Sequence[str] = ()
    caveats: Sequence[str] = ()
    audit: Mapping[str, Any] | None = None
    licence: Licence | None = None
    code: Mapping[str, Any] = field(default_factory=dict)

    @property
    def environment(self) -> str:
        """The name of the environment in the config, or the names of several."""
        return ", ".join(self.config.get("environments", {})) or str(self.config["environment"]["name"])

    @property
    def base(self) -> str | None:
        """The name or folder of the base model; `None` for a model that was made from nothing."""
        return self.policy.get("base_model")


_ALL = "*"  # the key of parts that have none of their own


def reward_by(settings: RewardConfig, environment: BaseEnv, parts: Sequence[str]) -> list[str]:
    """Return what `reward_in_words` says of a reward, of several environments after each one's name."""
    if not isinstance(environment, Several):
        return reward_in_words(environment, parts, settings.weights, settings.full)
    said = list[str]()
    for name, member in environment.members.items():
        own = [part.removeprefix(f"{name}/") for part in parts if part.startswith(f"{name}/")]
        said += [f"In {name}: {each}" for each in reward_by(settings.of_member(name), member, own)]
    return said


def reward_in_words(
    environment: BaseEnv, parts: Sequence[str], weights: Mapping[str, float], full: float | None
) -> list[str]:
    """Return paragraphs that say what the environment pays: its own words, each part, and what counts as solved.

    `parts` are those that were scored, `weights` those of the config, which override the environment's, and `full` the
    total from which an attempt counts as solved, if the config says so. Secrets in docstrings are hidden.
    """
    weight = {**environment.reward_weights(), **weights}
    maxima, minima = environment.reward_maxima(), environment.reward_minima()
    said = [_first_paragraph(type(environment)), _first_paragraph(type(environment).compute_reward)]
    told = [
        text for text, own in zip(said, (BaseEnv, BaseEnv.compute_reward), strict=True) if text != _first_paragraph(own)
    ]
    for part in parts:
        told.append(
            _of_part(environment, part, _get(weight, part, 1.0), _get(maxima, part, 1.0), _get(minima, part, None))
        )
    return [*told, _of_the_whole(full)]


def _get(values: Mapping[str, Any], part: str, default: Any) -> Any:
    return values.get(part, values.get(_ALL, default))


def _of_part(environment: BaseEnv, part: str, weight: float, maximum: float, minimum: float | None) -> str:
    method = getattr(type(environment), part, None)
    words = _first_paragraph(method) if callable(method) else ""
    ends = f"at most {maximum:g}" if minimum is None else f"{minimum:g} to {maximum:g}"
    if weight == 0:
        kind = "a metric, which is not paid"
    elif weight < 0:
        kind = f"a penalty of weight {weight:g}"
    else:
        kind = f"paid with weight {weight:g}, {ends}"
    return f"{part}: {kind}." + (f" {words}" if words else "")


def _of_the_whole(full: float | None) -> str:
    solved = "the total of an attempt that is full in every paid part" if full is None else f"{full:g}"
    return f"The reward of an attempt is the sum of its parts times their weights; it counts as solved from {solved}."


def _first_paragraph(documented: Any) -> str:
    """Return the first paragraph of a docstring in one line, without secrets."""
    text = inspect.getdoc(documented) or ""
    return hide(redact(" ".join(text.split("\n\n")[0].split())))
