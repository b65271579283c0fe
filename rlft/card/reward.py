"""What a reward pays, in words: from the parts, their weights, and what the environment's author has written."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from rlft.config import RewardConfig
from rlft.contract.base import BaseEnv
from rlft.contract.several import Several
from rlft.secrets import hide, redact

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
