"""What a version of a policy tells about itself: its model card, and the texts that are stored beside it.

- `facts`: what is known of a version
- `files`: the texts by the names of their files
- `model_card`, `front_matter`: the card in the format of the Hugging Face Hub
- `sections`: its sections: results, data, limits and how to load it
- `reward`: what the reward pays, in words
- `licence`: the licence that a base model's own card names
"""

from rlft.card.facts import Facts
from rlft.card.files import version_files

__all__ = ["Facts", "version_files"]
