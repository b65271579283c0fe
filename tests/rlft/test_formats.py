"""What says that a newer rlft has stored it is refused with a sentence, and what says nothing is read as before."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from rlft import formats, storage
from rlft.config import Config
from rlft.errors import FormatVersionError
from rlft.formats import Format
from rlft.policy import PolicyFolder, load_policy, save_policy
from rlft.policy.live import PolicyMetadata
from tests.factories import make_policy, make_scored, make_task, make_task_set

ROLLOUTS, REWARDS = make_scored({"a": [1.0, None]})
TABLES = [
    (storage.tasks_to_table(make_task_set(make_task("a"))), storage.tasks_from_table, formats.TASKS),
    (storage.rollouts_to_table(ROLLOUTS), storage.rollouts_from_table, formats.ROLLOUTS),
    (storage.rewards_to_table(REWARDS), storage.rewards_from_table, formats.REWARDS),
]


@pytest.mark.parametrize("version", [1, "1", 2, "3"])
def test_versions_between_oldest_and_newest_are_read(version):
    assert Format("a thing", newest=3, oldest=1).check(version) == int(version)


def test_what_says_no_version_is_of_version_0():
    assert Format("a thing", newest=1).check(None) == 0
    with pytest.raises(
        FormatVersionError, match=r"made by an older rlft: a thing is stored there in format version None"
    ):
        Format("a thing", newest=2, oldest=1).check(None)


@pytest.mark.parametrize("version", [4, "4", "4.1", "x", True, 4.0, -1, [], "9" * 20, "²"])
def test_another_version_is_one_of_a_newer_rlft(version):
    said = r"made by a newer rlft: a thing is stored there in format version .*, and this rlft reads 1 to 3"
    with pytest.raises(FormatVersionError, match=said) as e:
        Format("a thing", newest=3, oldest=1).check(version, where="file")
    assert e.value.where == "file"
    assert "bring this one up to date" in e.value.fix


def test_one_version_alone_is_named_alone():
    with pytest.raises(FormatVersionError, match=r"this rlft reads 2\n"):
        Format("a thing", newest=2, oldest=2).check(1)


@pytest.mark.parametrize(("table", "read", "form"), TABLES)
def test_tables(table, read, form):
    metadata = table.schema.metadata
    assert metadata[b"format"] == b"%d" % form.newest
    older = table.replace_schema_metadata({key: value for key, value in metadata.items() if key != b"format"})
    assert type(read(older)) is type(read(table))
    newer = form.newest + 1
    said = f"made by a newer rlft: {form.name} is stored there in format version {newer}"
    with pytest.raises(FormatVersionError, match=said):
        read(table.replace_schema_metadata({**metadata, b"format": b"%d" % newer}))


def test_the_form_of_a_table_is_no_part_of_its_hash():
    # The sha256 of no rows and no extra texts is that of nothing, whatever version the table has.
    assert storage.hash_rows([], storage.REWARD_SCHEMA).startswith("e3b0c442")


def test_a_policy(tmp_path):
    folder = save_policy(make_policy(), tmp_path / "policy")
    file = folder.path / "policy.json"
    stored = json.loads(file.read_text())
    assert stored.pop("format") == 1
    file.write_text(json.dumps(stored))  # as rlft wrote it before
    assert load_policy(folder, torch.device("cpu")).metadata == PolicyMetadata(**stored)
    file.write_text(json.dumps({**stored, "format": 2, "unknown": 1}))
    with pytest.raises(
        FormatVersionError, match=r"policy\.json: made by a newer rlft: a policy is stored there in format version 2"
    ):
        _ = PolicyFolder(folder.path).metadata


def test_the_form_of_a_policy_is_no_part_of_its_content(tmp_path, monkeypatch):
    first = save_policy(make_policy(), tmp_path / "first").metadata.content_hash
    monkeypatch.setattr("rlft.policy.folder.POLICY", dataclasses.replace(formats.POLICY, newest=7))
    save_policy(policy := make_policy(), tmp_path / "second")
    assert policy.metadata.content_hash == first


def test_a_change_of_a_format_is_noticed_here():
    # If this fails, a format has changed: raise its `newest` in rlft/formats.py if today's readers, or those before,
    # get the change wrong (a name that is gone, new without a default, or means something else). Write it down here.
    assert (formats.TASKS.newest, sorted(storage.TASK_SCHEMA.names)) == (
        1,
        ["answer", "environment", "group", "id", "info", "prompt", "question_key", "split"],
    )
    assert (formats.REWARDS.newest, sorted(storage.REWARD_SCHEMA.names)) == (
        4,
        ["answer", "error", "judging", "parts", "rollout_id", "seconds", "solved", "steps", "task_id", "total"],
    )
    assert (formats.ROLLOUTS.newest, " ".join(sorted(storage.ROLLOUT_SCHEMA.names))) == (
        1,
        "environment error logprobs loss_mask messages policy prompt_length rollout_id round sample sampling seconds "
        "seed state stop_reason task_id token_ids tool_calls tool_errors truncated turns",
    )
    assert (formats.POLICY.newest, " ".join(sorted(each.name for each in dataclasses.fields(PolicyMetadata)))) == (
        1,
        "base_hash base_model base_revision content_hash dtype kind parent round stage update weights_hash",
    )
    assert (formats.CONFIG.newest, " ".join(sorted(Config.model_fields))) == (
        1,
        "baseline budget controls distributed environment environments evaluation harness monitors name policy "
        "promotion reward rollout seed suite tasks tracking training warm_start",
    )
