"""An environment that extracts what happened from press releases about military operations.

- `environment`: the environment, its tools and the parts of its reward
- `extraction`: the fields of an extraction, its JSON schema, and the ways in which it can contradict itself
- `scores`: how far each field agrees with its label
- `places`: provinces of Afghanistan as texts spell them, and whether a text says when it was written
"""

from rlft.environments.press_releases.environment import PressReleases

__all__ = ["PressReleases"]
