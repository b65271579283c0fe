"""What another rlft has stored is refused with a sentence, and what a format holds is written down here."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from rlft.config import Config
from rlft.errors import FormatVersionError
from rlft.models import PolicyFolder, load_policy, save_policy
from rlft.models.live import PolicyMetadata
from rlft.types import formats, storage
from rlft.types.formats import Format
from tests.factories import make_policy, make_scored, make_task, make_task_set

ROLLOUTS, REWARDS = make_scored({"a": [1.0, None]})
TABLES = [
    (storage.tasks_to_table(make_task_set(make_task("a"))), storage.tasks_from_table, formats.TASKS),
    (storage.rollouts_to_table(ROLLOUTS), storage.rollouts_from_table, formats.ROLLOUTS),
    (storage.rewards_to_table(REWARDS), storage.rewards_from_table, formats.REWARDS),
]


@pytest.mark.parametrize("version", [3, "3"])
def test_its_own_version_is_read(version):
    Format("a thing", 3).check(version)


@pytest.mark.parametrize("version", [2, "4", "4.1", "x", True, None, -1, [], "9" * 30])
def test_another_version_or_none_is_refused(version):
    with pytest.raises(FormatVersionError) as caught:
        Format("a thing", 3).check(version, where="file")
    assert caught.value.where == "file"
    assert f"in format version 3, and its version is {version!s:.20}" in caught.value.what


@pytest.mark.parametrize(("table", "read", "form"), TABLES)
def test_tables(table, read, form):
    metadata = table.schema.metadata
    assert metadata[b"format"] == b"%d" % form.version
    assert type(read(table)).__name__ in ("TaskSet", "Rollouts", "Rewards")
    for other in ({}, {b"format": b"%d" % (form.version + 1)}):
        kept = {key: value for key, value in metadata.items() if key != b"format"}
        with pytest.raises(FormatVersionError):
            read(table.replace_schema_metadata({**kept, **other}))


def test_the_form_of_a_table_is_no_part_of_its_hash():
    # The sha256 of no rows and no extra texts is that of nothing, whatever version the table has.
    assert storage.hash_rows([], storage.REWARD_SCHEMA).startswith("e3b0c442")


def test_a_policy(tmp_path):
    folder = save_policy(make_policy(), tmp_path / "policy")
    file = folder.path / "policy.json"
    stored = json.loads(file.read_text())
    assert stored.pop("format") == 1
    assert load_policy(folder, torch.device("cpu")).metadata == PolicyMetadata(**stored)
    for other in ({}, {"format": 2, "unknown": 1}):
        file.write_text(json.dumps({**stored, **other}))
        with pytest.raises(FormatVersionError) as caught:
            _ = PolicyFolder(folder.path).metadata
        assert caught.value.where == str(file)


def test_the_form_of_a_policy_is_no_part_of_its_content(tmp_path, monkeypatch):
    first = save_policy(make_policy(), tmp_path / "first").metadata.content_hash
    monkeypatch.setattr("rlft.models.folder.POLICY", dataclasses.replace(formats.POLICY, version=7))
    save_policy(policy := make_policy(), tmp_path / "second")
    assert policy.metadata.content_hash == first


def test_a_change_of_a_format_is_noticed_here():
    # If this fails, a format has changed: raise its `version` in rlft/types/formats.py if readers get it wrong (a name
    # that is gone, new without a default, or means something else). Write it down here.
    assert (formats.TASKS.version, sorted(storage.TASK_SCHEMA.names)) == (
        1,
        ["answer", "environment", "group", "id", "info", "prompt", "question_key", "split"],
    )
    assert (formats.REWARDS.version, sorted(storage.REWARD_SCHEMA.names)) == (
        5,
        ["answer", "error", "judging", "parts", "rollout_id", "seconds", "solved", "steps", "task_id", "total"],
    )
    assert (formats.ROLLOUTS.version, " ".join(sorted(storage.ROLLOUT_SCHEMA.names))) == (
        1,
        "environment error logprobs loss_mask messages policy prompt_length rollout_id round sample sampling seconds "
        "seed state stop_reason task_id token_ids tool_calls tool_errors truncated turns",
    )
    assert (formats.POLICY.version, " ".join(sorted(each.name for each in dataclasses.fields(PolicyMetadata)))) == (
        1,
        "base_hash base_model base_revision content_hash dtype kind parent round stage update weights_hash",
    )
    assert (formats.CONFIG.version, " ".join(sorted(Config.model_fields))) == (
        1,
        "baseline budget controls distributed environment environments evaluation harness monitors name policy "
        "promotion reward rollout seed suite tasks tracking training warm_start",
    )
