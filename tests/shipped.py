"""The shipped configs on the real data that stands in for what they name: a file of the user's, or one on the Hub."""

from __future__ import annotations

from pathlib import Path

from rlft.config import Config
from rlft.config.file import load_config

ROOT = Path(__file__).resolve().parents[1]
WITH_TOOLS = ("press_releases", "snips_slots", "search_xquad", "search_multihop", "calculator")
IN_A_SANDBOX = ("humaneval", "mbpp")
ALL = (*WITH_TOOLS, *IN_A_SANDBOX, "gsm8k", "stories", "sums")

_FILES = {
    "press_releases": "isaf_press_releases/incidents.jsonl",
    "snips_slots": "snips_slots/utterances.jsonl",
    "search_xquad": "search_xquad/questions.jsonl",
    "search_multihop": "search_multihop/questions.jsonl",
    "humaneval": "humaneval/tasks.jsonl",
    "mbpp": "mbpp/tasks.jsonl",
    "gsm8k": "gsm8k/train.jsonl",
}


def overrides(name: str, shared_data: Path) -> list[str]:
    """`--set` values that point a config at the real data."""
    found: list[str] = []
    if name in _FILES:
        found += ["tasks.source=jsonl", f"tasks.path={shared_data / _FILES[name]}"]
    if name == "mbpp":
        found += ["tasks.prompt=text"]
    if name.startswith("search_"):
        found += [f"environment.kwargs.documents={shared_data / name / 'corpus' / 'documents.jsonl'}"]
    shipped = ROOT / "configs" / "tasks"
    if name == "stories":
        found += [f"tasks.path={shipped / 'stories.jsonl'}"]
        found += [f"tasks.off_distribution.path={shipped / 'stories_off_distribution.jsonl'}"]
    if name == "demo":
        found += [f"tasks.path={shipped / 'patterns.jsonl'}"]
        found += [f"tasks.off_distribution.path={shipped / 'patterns_harder.jsonl'}"]
        found += [f"warm_start.path={shipped / 'patterns_demonstrations.jsonl'}"]
    if name == "loophole":
        found += [f"tasks.path={shipped / 'remainders.jsonl'}"]
        found += [f"warm_start.path={shipped / 'remainders_demonstrations.jsonl'}"]
    return found


def load_shipped(name: str, shared_data: Path) -> Config:
    """A shipped config on real data."""
    return load_config(ROOT / "configs" / f"{name}.yaml", overrides(name, shared_data))
