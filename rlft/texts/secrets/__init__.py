"""Secrets: which settings look like one, how a setting names an environment variable instead, and how texts hide them.

The same definition of a secret serves the check of a config and what is written to MLflow, logs and files
(docs/decisions/0009-secrets.md). The room can be imported without torch.

- `texts`: secrets that a text shows by its own form, or a setting by its name
- `hiding`: the secrets within a config; settings that name a variable, whose value is hidden wherever this writes
"""

from rlft.texts.secrets.hiding import (
    find_secrets,
    find_shown_secrets,
    hide,
    hide_in,
    hide_in_logs,
    hide_in_output,
    hide_secrets,
    hiding,
    misspelt_variables,
    named_variables,
    remember,
    require,
    resolve,
    without_variables,
)
from rlft.texts.secrets.texts import MASK, redact

__all__ = [
    "MASK",
    "find_secrets",
    "find_shown_secrets",
    "hide",
    "hide_in",
    "hide_in_logs",
    "hide_in_output",
    "hide_secrets",
    "hiding",
    "misspelt_variables",
    "named_variables",
    "redact",
    "remember",
    "require",
    "resolve",
    "without_variables",
]
