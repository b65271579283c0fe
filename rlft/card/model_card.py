"""The model card of a version, in the format of the Hugging Face Hub."""

from __future__ import annotations

from rlft.card.facts import Facts
from rlft.card.front_matter import front_matter
from rlft.card.sections import context, data, licence, limits, loading, opening, results
from rlft.secrets import hide


def model_card(facts: Facts) -> str:
    """Return the card: YAML between two lines of dashes, and sections in Markdown. Secrets are hidden."""
    sections = [
        opening(facts),
        results(facts),
        data(facts),
        context(facts),
        limits(facts),
        licence(facts),
        loading(facts),
    ]
    body = "\n\n".join(sections)
    return hide(f"---\n{front_matter(facts).strip()}\n---\n\n{body}\n")
