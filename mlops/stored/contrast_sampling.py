"""How the attempts of a run at the test tasks were sampled, and by which weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rlft.config import Config
from rlft.contrasts.configs import flat
from rlft.types import EvaluationReport

# Not `evaluation.num_generations`: more attempts at a task make its mean surer, and leave what it is expected to be.
_SETTINGS = (
    "evaluation.temperature",
    "evaluation.top_p",
    "evaluation.top_k",
    "evaluation.min_p",
    "rollout.max_completion_length",
    "rollout.vllm.max_model_len",
    "policy.chat_template",
    "policy.chat_template_kwargs",
    "harness",
)
_ASIDE = ("harness.lockstep", "harness.isolation", "harness.processes", "harness.memory_mib")  # where the code runs


def ways_of_sampling(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return {setting: value} of what a config says of how attempts at test tasks are sampled.

    What an older run has not stored has its default: before there was the setting, there was no other value.
    """
    fields = Config.model_fields
    defaults = {
        name: fields[name].get_default(call_default_factory=True) for name in ("evaluation", "rollout", "harness")
    }
    known = flat({name: section.model_dump(mode="json") for name, section in defaults.items()})
    known |= {"policy.chat_template": None, **flat(settings)}
    chosen = {name for name in known if any(name == each or name.startswith(f"{each}.") for each in _SETTINGS)}
    return {name: known[name] for name in sorted(chosen - set(_ASIDE))}


def weights_of(report: EvaluationReport, settings: Mapping[str, Any]) -> str:
    """Return what identifies the weights that were evaluated: their hash, and the model below, which an adapter has.

    It is empty where the report does not name them by their hash.
    """
    if not re.fullmatch(r"[0-9a-f]{64}", report.policy):
        return ""
    base = settings.get("policy") or {}
    return f"{report.policy} on {base.get('model')} {base.get('revision')}"
