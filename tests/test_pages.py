"""The pages: links lead somewhere, files and commands that they name exist, their examples are read by the code."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
import typer
import yaml

from cli.app import make_app
from rlft.config.file import check_config, load_config
from rlft.config.policy import FromScratchConfig
from rlft.harness.chat.formats import FORMATS
from rlft.messages import make_call
from rlft.models.tokens import character_tokenizer, unknown_characters
from rlft.tasks.use import REASONS
from rlft.texts.privacy import PERSONAL
from rlft.training.demonstration_file import read_demonstrations

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "docs" / "guide"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PACKAGES = ("cli", "materializers", "mlops", "pipelines", "rlft", "steps")
ROOMS = sorted({file.parent for name in PACKAGES for file in (ROOT / name).rglob("__init__.py")})
REAL_MODEL = (GUIDE / "first-real-model.md").read_text()
TERMS = [
    *("task", "harness", "environment", "rollout", "trajectory", "reward", "group", "advantage", "policy", "reference"),
    *("KL", "on-policy", "off-policy", "warm start", "RLHF", "RLAIF", "RLVR", "dense reward", "sparse reward"),
    *("reward hacking", "off-distribution", "gate", "champion", "challenger", "avg@k", "pass@k", "maj@k"),
    *(
        "gold",
        "fate",
        "ledger",
        "stage",
        "arm",
        "attempt",
        "round",
        "control",
        "suite",
        "cell",
        "slice",
        "sweep",
        "home",
    ),
    *("seal", "look", "schedule", "firing", "replay", "effective sample size", "trace"),
    *("pass rate", "retired", "dynamic sampling", "monitor", "honest part"),
    *("lag", "engine", "canary", "trainer", "sharding", "stack"),
]
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What a `#` in a link to the page may name: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@by_page
def test_every_link_leads_somewhere(page):
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if "://" not in link and not (target.exists() and (not anchor or anchor in anchors(target))):
            broken.append(link)
    assert broken == []


@by_page
def test_every_file_that_is_named_exists(page):
    named = re.findall(r"`((?:rlft|mlops|cli|steps|pipelines|materializers|configs|docs|tests)/[\w/.-]+)`", prose(page))
    assert [name for name in named if not (ROOT / name).exists()] == []


@by_page
@pytest.mark.slow
def test_every_command_is_one_that_rlft_has(page):
    for block in re.findall(r"^```(?:console|bash)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", "").splitlines():
            words = shlex.split(line.replace("...", "x"), comments=True)
            if words and words[0].removeprefix(".venv/bin/") == "rlft":
                parse(words[1:])


def parse(words: list[str]) -> None:
    """Parse a command without running it. Raises KeyError for a command, UsageError for an option that is not there."""
    command = typer.main.get_command(make_app())
    while hasattr(command, "commands"):
        if words[0] not in command.commands and hasattr(command, "default"):
            words = [command.default, *words]
        command, words = command.commands[words[0]], words[1:]
    command.make_context("rlft", list(words))


@by_page
def test_no_secret_is_typed_and_the_login_at_mlflow_is_private(page):
    made = re.findall(r"(zenml|kubectl) (?:secret create|create secret generic) (\w+)([^`#\n]*)", page.read_text())
    # ZenML takes a public secret `mlflow` for everybody's, and a shell keeps what is typed.
    assert [
        name for program, name, rest in made if (program, name) == ("zenml", "mlflow") and "--private" not in rest
    ] == []
    assert [
        name for _, name, rest in made if re.search(r"--from-literal|--(?!values|namespace|from-env-file)\w+=", rest)
    ] == []


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_a_room_that_says_what_its_files_are_for_says_it_of_all(room):
    named = set(re.findall(r"`(\w+)`", ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""))
    files = {file.stem for file in room.glob("*.py")} - {"__init__", "__main__"}
    files |= {folder.parent.name for folder in room.glob("*/__init__.py")}
    assert not named & files or sorted(files - named) == []


def test_every_page_of_the_guide_answers_a_question():
    listed = set(re.findall(r"\]\(([\w.-]+\.md)\)", (GUIDE / "README.md").read_text()))
    assert listed == {page.name for page in GUIDE.glob("*.md")} - {"README.md"}


def test_the_glossary_has_the_terms_of_the_field_with_the_files_that_hold_them():
    entries = re.findall(r"^- \*\*(.+?)\*\*: (.*?)(?=^- |^$|\Z)", (GUIDE / "glossary.md").read_text(), re.S | re.M)
    found = dict(entries)
    assert len(found) == len(entries)
    assert sorted(found) == sorted(TERMS)
    for term, text in found.items():
        assert text.count("\n") == 2, f"{term} has two lines"
        files = re.findall(r"`((?:rlft|mlops|steps|pipelines)/[\w/]+\.py)`", text)
        assert files, f"{term} names its file"
        assert [file for file in files if not (ROOT / file).is_file()] == []


def test_the_glossary_names_what_its_files_hold():
    for file, name in re.findall(r"`([\w/]+\.py)` \(`(\w+)`\)", (GUIDE / "glossary.md").read_text()):
        assert re.search(rf"^(?:class|def) {name}\b", (ROOT / file).read_text(), re.MULTILINE), (file, name)


def test_the_settings_of_the_first_real_model_are_settings():
    config = yaml.safe_load((ROOT / "configs" / "gsm8k.yaml").read_text())
    blocks = re.findall(r"```yaml\n(.*?)```", REAL_MODEL, re.DOTALL)
    assert [set(yaml.safe_load(block)) for block in blocks] == [{"warm_start"}, {"policy"}, {"rollout"}]
    for block in blocks:
        content = yaml.load(block.replace("1e-4", "1.0e-4"), yaml.SafeLoader)
        check_config(config | {"training": {"learning_rate": 2e-5}} | content, where="the page")
    for line in re.findall(r"^rlft run (.*)$", REAL_MODEL, re.MULTILINE):
        file, *options = shlex.split(line)
        load_config(ROOT / file, [value for name, value in pairwise(options) if name == "--set"])


@pytest.mark.parametrize("page", ["first-real-model.md", "chat.md"])
def test_the_demonstration_that_is_shown_can_be_read(page, tmp_path):
    rows = re.findall(r'^\{"messages".*$', (GUIDE / page).read_text(), re.MULTILINE)
    assert len(rows) == 1
    (tmp_path / "demonstrations.jsonl").write_text(rows[0])
    (shown,) = read_demonstrations(tmp_path / "demonstrations.jsonl")
    assert shown.turns == (json.loads(rows[0])["messages"][-1],)


def test_the_tiny_model_reads_its_pages_call_in_as_many_tokens_as_the_page_says():
    page = (GUIDE / "tiny-model.md").read_text()
    block, _ = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (conversation,) = re.findall(r"```text\n(How many .*?)```", page, re.DOTALL)
    settings = FromScratchConfig(**yaml.safe_load(block)["policy"]["from_scratch"])
    tokenizer = character_tokenizer(settings.characters, settings.pieces)
    call = FORMATS["hermes"].write("", [make_call("stock", {"article": "A1", "town": "Lima"}, "1")])
    assert call in conversation
    assert f"The call above is {len(tokenizer(call).input_ids)} tokens then. Without pieces it is {len(call)}" in page
    assert unknown_characters(tokenizer, conversation) == []
    # the turns that are sampled end with a token, and a newline stands before what follows them
    assert len(tokenizer(conversation.strip()).input_ids) + 2 <= 40
    assert settings.max_position_embeddings >= 40


def test_the_whole_config_of_the_tiny_model_can_be_read_and_holds_a_conversation(tmp_path):
    _, block = re.findall(r"```yaml\n(.*?)```", (GUIDE / "tiny-model.md").read_text(), re.DOTALL)
    (tmp_path / "mirror.yaml").write_text(block)
    settings = load_config(tmp_path / "mirror.yaml")
    assert settings.warm_start is not None
    shape = settings.policy.from_scratch
    assert shape is not None
    assert unknown_characters(tokenizer := character_tokenizer(shape.characters), "acbd>dbca") == []
    assert len(tokenizer("acbd>dbca").input_ids) + 2 <= shape.max_position_embeddings


def test_the_config_of_tasks_from_use_can_be_read_and_each_reason_is_explained(tmp_path):
    page = (GUIDE / "use.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "capitals.yaml").write_text(block)
    assert load_config(tmp_path / "capitals.yaml").tasks.use is not None
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| \w", page, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(REASONS)
    assert all(f"`{kind}`" in page for kind in PERSONAL)


def test_contributing_has_the_line_of_rooms_that_is_checked():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (rooms,) = [contract["layers"] for contract in contracts if contract.get("containers") == ["rlft"]]
    (shown,) = re.findall(r"\n\n((?:    .+\n)+)", (ROOT / "CONTRIBUTING.md").read_text())
    assert [layer.split(", ") for layer in " ".join(shown.split()).split(" → ")] == [r.split(" | ") for r in rooms]
