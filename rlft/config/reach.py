"""What the reward of a config does beyond comparing texts, told before any of it is done."""

from __future__ import annotations

from rlft.config.code import code_of
from rlft.config.experiment import Config
from rlft.files import RLFT_FOLDER

_OF_REWARDS = ("environment.name", "reward.spec")


def reaches(config: Config) -> list[str]:
    """Return a sentence for each file of code that the reward of a config runs here, and for where it sends a key.

    Code of rlft itself is left out, and so are the files that such a file imports.
    """
    named = (each.file for each in code_of(config) if each.setting in _OF_REWARDS)
    files = dict.fromkeys(file.resolve() for file in named if file is not None and file.is_file())
    said = [f"This runs the code in {each}." for each in files if not each.is_relative_to(RLFT_FOLDER)]
    if (spec := config.reward.spec) is None:
        return said
    if (judge := spec.judge) is not None and judge.api_key is not None:
        said.append(f"This sends the key in ${judge.api_key.removeprefix('env:')} to {judge.place}.")
    if spec.sandbox == "none" and any(each.needs_sandbox for each in spec.graders()):
        said.append("This runs programs with your rights, as the specification says `sandbox: none`.")
    return said
