"""Whatever happens to a stored file, nothing is read of it: an error names the file and the command that mends it."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

from materializers.policy import PolicyMaterializer
from materializers.report import ReportMaterializer
from materializers.tables import WARM, RewardsMaterializer, RolloutsMaterializer, TaskSetMaterializer
from rlft.errors import DamagedError, StorageError, WeightsRemovedError
from rlft.files import REMOVED
from rlft.models import PolicyFolder, load_policy, save_policy
from rlft.models.origin import hash_weights
from rlft.training.trainer import prepare_optimizer
from rlft.types import Rewards, Rollouts, TaskSet, TrainReport, storage
from rlft.types.formats import KEY, POLICY
from tests.factories import (
    make_lora_policy,
    make_policy,
    make_scored,
    make_task,
    make_task_set,
    make_training,
    save_base,
)

CPU = torch.device("cpu")
TRAINING = make_training()
ROLLOUTS, REWARDS = make_scored({"a": [1.0, None], "b": [0.5, 0.0]})
TASKS = make_task_set(make_task("a"), make_task("b", split="gate"))
REPORT = TrainReport(3, {"kl": 0.5}, {"r": "trained"}, 2, 1.5, None)
TABLES = [
    (TaskSetMaterializer, TASKS, TaskSet),
    (RolloutsMaterializer, ROLLOUTS, Rollouts),
    (RewardsMaterializer, REWARDS, Rewards),
    (ReportMaterializer, REPORT, TrainReport),
]


def flip(file: Path) -> None:
    """Change 64 bytes in the middle, as a bad disk does."""
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(byte ^ 0xFF for byte in content[middle : middle + 64])
    file.write_bytes(content)


HARMS = {
    "flipped": flip,
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-9]),
    "deleted": Path.unlink,
}


def at(kind, store, name="step/output/id/1"):
    uri = Path(store.path) / name
    uri.mkdir(parents=True, exist_ok=True)
    return kind(str(uri), store)


def forget(materializer):
    """Do as a new process: nothing is warm, and the materializer is new."""
    WARM.clear()
    return type(materializer)(materializer.uri, materializer.artifact_store)


def train(policy):
    """Take one step, so that there is an optimizer with state."""
    prepare_optimizer(policy, TRAINING, None)
    for parameter in policy.trainable().values():
        parameter.grad = torch.ones_like(parameter)
    policy.optimizer.step(1e-3)
    policy.note_change(update=1)


def use(folder: PolicyFolder):
    """Do what a round does with a cold policy: load it with its optimizer."""
    policy = load_policy(folder, CPU)
    prepare_optimizer(policy, TRAINING, folder.load_optimizer)
    return policy


@pytest.mark.parametrize("store", ["local_store", "remote_store"])
@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
@pytest.mark.parametrize(("kind", "data", "type_"), TABLES)
def test_a_damaged_table_or_report(kind, data, type_, harm, store, request):
    materializer = at(kind, request.getfixturevalue(store))
    materializer.save(data)
    (file,) = Path(materializer.uri).iterdir()
    harm(file)
    with pytest.raises(DamagedError) as caught:
        forget(materializer).load(type_)
    assert caught.value.where == str(file)
    assert caught.value.fix


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
@pytest.mark.parametrize(("kind", "data", "type_"), TABLES)
def test_a_damaged_table_or_report_of_which_zenml_knows_no_hash(kind, data, type_, harm, local_store, noted):
    materializer = at(kind, local_store)
    materializer.save(data)
    noted.clear()
    (file,) = Path(materializer.uri).iterdir()
    if harm is flip:
        assert type(forget(materializer).load(type_)) is type_  # it is read as before: nothing vouches for it
        return
    harm(file)
    with pytest.raises(DamagedError) as caught:
        forget(materializer).load(type_)
    assert caught.value.where == str(file)


def test_rewards_that_were_edited_with_care(local_store):
    materializer = at(RewardsMaterializer, local_store)
    materializer.save(REWARDS)
    file = Path(materializer.uri) / "rewards.parquet"
    better = tuple(dataclasses.replace(row, total=1.0, error=None) for row in REWARDS)
    pq.write_table(storage.rewards_to_table(Rewards(better, REWARDS.weights)), file, compression="zstd")
    with pytest.raises(DamagedError):
        forget(materializer).load(Rewards)


@pytest.fixture(scope="module", params=["full", "adapter"])
def trained(request, tmp_path_factory):
    """A saved policy with an optimizer."""
    folder = tmp_path_factory.mktemp("trained")
    policy = make_policy() if request.param == "full" else make_lora_policy(save_base(folder / "base"))
    train(policy)
    return save_policy(policy, folder / "saved", stage="grpo", round=3)


def copied(folder: PolicyFolder, target: Path) -> PolicyFolder:
    """The same policy in files of its own: a local store would link to those of the other tests."""
    return PolicyFolder(Path(shutil.copytree(folder.path, target / "copied")))


WEIGHTS = {"full": "model/model.safetensors", "adapter": "model/adapter_model.safetensors"}
FILES = ("policy.json", "WEIGHTS", "optimizer.safetensors", "tokenizer/tokenizer.json")


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_policy(name, harm, trained, local_store, tmp_path):
    materializer = at(PolicyMaterializer, local_store)
    materializer.save(copied(trained, tmp_path))
    found = forget(materializer).load(PolicyFolder)
    assert use(found).metadata == trained.metadata
    file = found.path / (WEIGHTS[trained.metadata.kind] if name == "WEIGHTS" else name)
    harm(file)
    with pytest.raises(DamagedError) as caught:
        use(found)
    assert caught.value.where == str(file)


def test_a_policy_far_away(trained, remote_store):
    materializer = at(PolicyMaterializer, remote_store)
    materializer.save(trained)
    assert use(forget(materializer).load(PolicyFolder)).metadata == trained.metadata
    file = Path(materializer.uri) / "policy" / "optimizer.safetensors"
    flip(file)
    with pytest.raises(DamagedError, match="has changed") as caught:
        use(forget(materializer).load(PolicyFolder))
    assert caught.value.where == str(file)  # and not that of the local copy


def test_weights_that_were_edited_with_care(local_store, tmp_path):
    materializer = at(PolicyMaterializer, local_store)
    materializer.save(save_policy(make_policy(), tmp_path / "saved"))
    found = forget(materializer).load(PolicyFolder)
    file = found.path / "model" / "model.safetensors"
    weights = {name: tensor + 1 for name, tensor in load_file(file).items()}
    save_file(weights, file, metadata={"format": "pt"})
    said = dataclasses.replace(found.metadata, weights_hash=hash_weights(found.path / "model"))
    (found.path / "policy.json").write_text(json.dumps({KEY: POLICY.version, **dataclasses.asdict(said)}))
    with pytest.raises(DamagedError):
        load_policy(found, CPU)
    load_policy(PolicyFolder(found.path), CPU)  # without its seal it is a policy like any other


def test_a_damaged_policy_is_not_stored_again_under_a_new_seal(local_store, tmp_path):
    first = at(PolicyMaterializer, local_store)
    first.save(save_policy(make_policy(), tmp_path / "saved"))
    found = forget(first).load(PolicyFolder)
    flip(found.path / "model" / "model.safetensors")
    with pytest.raises(DamagedError):
        at(PolicyMaterializer, local_store, "step/output/id/2").save(found)


def test_weights_that_retention_has_removed_are_not_damaged_and_those_that_are_lost_are(trained, local_store, tmp_path):
    materializer = at(PolicyMaterializer, local_store)
    materializer.save(copied(trained, tmp_path))
    found = forget(materializer).load(PolicyFolder)
    found = dataclasses.replace(found, seal=dataclasses.replace(found.seal, run="r", step="train_grpo_r000"))
    for name in (WEIGHTS[trained.metadata.kind], "optimizer.safetensors"):
        (found.path / name).unlink()
    with pytest.raises(DamagedError, match="this file is gone") as lost:  # by hand: `policy.keep` leaves a mark
        load_policy(found, CPU)
    assert lost.value.where.endswith(WEIGHTS[trained.metadata.kind])
    assert (lost.value.run, lost.value.step) == ("r", "train_grpo_r000")
    assert len(list(found.seal.damages(found.path.parent))) == 2
    (found.path.parent / REMOVED).touch()
    with pytest.raises(WeightsRemovedError):
        load_policy(found, CPU)
    assert list(found.seal.damages(found.path.parent)) == []


def test_a_policy_without_a_seal_is_read_and_its_weights_are_checked(local_store, tmp_path, noted):
    materializer = at(PolicyMaterializer, local_store)
    materializer.save(save_policy(make_policy(), tmp_path / "saved"))
    noted.clear()
    found = forget(materializer).load(PolicyFolder)
    assert found.seal is None
    load_policy(found, CPU)
    flip(found.path / "model" / "model.safetensors")
    with pytest.raises(DamagedError, match=r"policy\.json says"):
        load_policy(found, CPU)


def test_an_optimizer_without_a_seal_that_was_cut_off(trained, tmp_path):
    found = copied(trained, tmp_path)
    file = found.path / "optimizer.safetensors"
    for content in (file.read_bytes()[:-9], b""):
        file.write_bytes(content)
        with pytest.raises(DamagedError, match="optimizer's state does not load") as caught:
            use(found)
        assert caught.value.where == str(file)


def test_a_store_that_fails_is_not_called_damage(local_store, monkeypatch):
    materializer = at(ReportMaterializer, local_store)
    materializer.save(REPORT)

    def fail(*_):
        raise TimeoutError("the bucket did not answer")

    monkeypatch.setattr(local_store, "open", fail, raising=False)
    with pytest.raises(StorageError, match="did not answer") as caught:
        materializer.load(TrainReport)
    assert not isinstance(caught.value, DamagedError)
