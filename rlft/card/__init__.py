"""What a version of a policy tells about itself: its model card, and the texts that are stored beside it.

- `facts`: what is known of a version, its licence and its reward among it
- `model_card`: the card in the format of the Hugging Face Hub, and the other texts by the names of their files
"""

from rlft.card.facts import Facts
from rlft.card.model_card import version_files

__all__ = ["Facts", "version_files"]
