"""Press releases about military operations, and what happened as data.

- `environment`: the environment, its tools and the parts of its reward
- `extraction`: the fields of an extraction, its JSON, and in what it can contradict itself
- `scores`: how far a field agrees with its label
- `places`: provinces of Afghanistan as texts spell them, and whether a text dates itself
"""

from rlft.environments.press_releases.environment import PressReleases

__all__ = ["PressReleases"]
