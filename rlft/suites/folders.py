"""Tells whether a folder that a person names as a model can be one."""

from __future__ import annotations

from pathlib import Path

from rlft.errors import ConfigError
from rlft.files import expanded

POLICY = "policy.json"  # of a folder that rlft has written a policy to


def is_policy_folder(folder: Path) -> bool:
    """Return whether rlft has written a policy to this folder."""
    return (folder / POLICY).is_file()


def check_model_folder(name: str) -> None:
    """Raise ConfigError for a path at which no folder with a model is; a name that is no path may be one of the Hub."""
    folder = expanded(name)
    if not folder.is_dir():
        if name.startswith((".", "/", "~")):
            raise ConfigError("there is no such folder", fix="name the folder of a model, or its name on the Hub")
        return
    if is_policy_folder(folder) or (folder / "config.json").is_file():
        return
    if (folder / "adapter_config.json").is_file():
        raise ConfigError(
            "the folder holds an adapter without its base model",
            fix="name the run or the registered version that it is of, or a folder with the merged weights",
        )
    raise ConfigError(
        "the folder holds no model: config.json is missing",
        fix="name a folder with config.json, tokenizer and *.safetensors, or a policy folder, which has policy.json",
    )
