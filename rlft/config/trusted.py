"""What the file of a specification may not do unless the config allows it, as it may come from somebody else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rlft.errors import ConfigError

NO_SANDBOX = "no_sandbox"
"""What `reward.spec_may` says where programs of the file may run without a sandbox."""
PROVIDERS = {
    "ANTHROPIC_API_KEY": "api.anthropic.com",
    "DEEPSEEK_API_KEY": "api.deepseek.com",
    "GEMINI_API_KEY": "generativelanguage.googleapis.com",
    "GROQ_API_KEY": "api.groq.com",
    "MISTRAL_API_KEY": "api.mistral.ai",
    "OPENAI_API_KEY": "api.openai.com",
    "OPENROUTER_API_KEY": "openrouter.ai",
    "TOGETHER_API_KEY": "api.together.xyz",
}
"""Variables with the key of a provider, as its own client names them, and the only host that gets it unasked."""


def check_trusted(content: Mapping[str, Any], allowed: Collection[str], *, where: str, setting: str) -> None:
    """Raise ConfigError for what the unchecked content of a file asks for and `allowed` does not name.

    Refused are programs without a sandbox (`no_sandbox`), and a judge's key in a variable that is not there for judges
    (`env:NAME`): the file says where the key is sent. A variable is there for judges if a word of its name is `JUDGE`,
    or if it is a provider's and the judge is that provider's host. `setting` is where the config allows something.
    """
    if content.get("sandbox") == "none" and NO_SANDBOX not in allowed:
        raise ConfigError(
            "sandbox: none runs its programs with your rights, and a file may not ask for that by itself",
            where=where,
            fix=f"take it out, or allow it in the config, if you trust the file: {setting}: [{NO_SANDBOX}]",
        )
    judge = content.get("judge")
    key, endpoint = (judge.get("api_key"), judge.get("endpoint")) if isinstance(judge, Mapping) else (None, None)
    if not isinstance(key, str) or not key.startswith("env:") or key in allowed:
        return  # what is no name of a variable is refused when the specification is read
    variable = key.removeprefix("env:")
    if not _is_for_judges(variable, str(endpoint)):
        raise ConfigError(
            f"judge.api_key would send the variable {variable} to {endpoint}, and a file may not choose any variable",
            where=where,
            fix="name one with JUDGE in it, such as env:JUDGE_KEY, or allow this one in the config, if it is meant for "
            f"that address: {setting}: [{key}]",
        )


def check_trusted_file(content: Mapping[str, Any], reward: Mapping[str, Any], file: Path, setting: str) -> None:
    """Raise ConfigError for what a file's content asks for and the section `reward` that names it does not allow."""
    allowed = reward.get("spec_may")
    names = [each for each in allowed if isinstance(each, str)] if isinstance(allowed, list) else []
    check_trusted(content, names, where=f"{setting}.spec: {file}", setting=f"{setting}.spec_may")


def _is_for_judges(variable: str, endpoint: str) -> bool:
    if "JUDGE" in variable.upper().split("_"):
        return True
    try:
        parts = urlsplit(endpoint)
        host = PROVIDERS.get(variable)
        return host is not None and parts.scheme == "https" and parts.netloc.lower() in (host, f"{host}:443")
    except ValueError:
        return False
