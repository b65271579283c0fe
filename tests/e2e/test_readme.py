"""What the README shows is what works: its example is cut out of it and run, and its commands answer."""

from __future__ import annotations

import json
import re

import pytest

from tests.e2e.conftest import ROOT

pytestmark = pytest.mark.timeout(1200)
README = (ROOT / "README.md").read_text()
CITIES = {"Japan": "Tokyo", "Italy": "Rome", "Spain": "Madrid", "Cuba": "Havana"}  # beside those that it shows
SPLITS = "tasks.splits={train: 3, validation: 1, gate: 1, test: 1}"
CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz .?\\n"


@pytest.fixture(scope="module")
def capitals(make_home):
    """A home with the README's example and rows for it."""
    home = make_home("readme")
    (source,) = re.findall(r"```python\n(# capitals\.py\n.*?)```", README, re.DOTALL)
    (config,) = re.findall(r"```yaml\n(# rlft run capitals\.yaml\n.*?)```", README, re.DOTALL)
    (home.folder / "capitals.py").write_text(source)
    (home.folder / "capitals.yaml").write_text(config)
    (shown,) = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
    rows = [json.loads(row) for row in shown.splitlines()]
    assert len(rows) == 2
    rows += [{"question": f"Capital of {country}?", "answer": city} for country, city in CITIES.items()]
    (home.folder / "capitals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return home


def test_the_example_fits_in_twenty_lines():
    blocks = re.findall(r"```(?:python|yaml)\n(.*?)```", README, re.DOTALL)
    assert sum(len(block.strip().splitlines()) for block in blocks) <= 20


def test_the_example_passes_its_audit(capitals):
    result = capitals.rlft(
        "audit", "capitals.yaml", "--set", "tasks.splits={train: 3, validation: 1, gate: 1, test: 1}"
    )
    assert result.code == 0, result.output
    assert "gold" in result.output


@pytest.mark.slow
def test_the_example_runs_with_a_model_that_needs_no_hub(capitals):
    shape = f'{{from_scratch: {{characters: "{CHARACTERS}", max_position_embeddings: 128, hidden_size: 32}}}}'
    options = [
        f"policy={shape}",
        SPLITS,
        "rollout.max_completion_length=8",
        "baseline.num_generations=2",
    ]
    result = capitals.rlft("run", "capitals.yaml", *[part for option in options for part in ("--set", option)])
    assert result.code == 3, result.output  # random weights know no capitals, and the run says so
    assert result.summary["status"] == "too_hard"


def test_it_says_against_what_a_model_has_improved():
    (said,) = re.findall(r"`status` is `improved` when(.*?)\. Otherwise", README, re.DOTALL)
    said = " ".join(said.split())
    assert "minus the model that training started from" in said
    assert "the warm start if the config has one" in said
    assert "else from the base model" in said


def test_every_make_target_in_the_readme_exists():
    named = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    makefile = (ROOT / "Makefile").read_text()
    assert named == {"demo", "setup", "test"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in named)


def test_every_file_the_readme_points_to_exists():
    links = re.findall(r"\]\(([^)#]+)\)", README) + re.findall(r"`((?:rlft|steps|pipelines|docs)/[\w/.]*)`", README)
    assert len(links) >= 10
    assert [link for link in links if not (ROOT / link).exists()] == []
