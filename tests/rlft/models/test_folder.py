"""Policies on disk: the same bytes cold and warm, and folders that cannot be loaded say what to do."""

import dataclasses
import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from rlft.config import FromScratchConfig, LoraSettings, PolicyConfig
from rlft.engines.transformers_engine import TransformersEngine
from rlft.errors import DamagedError, PolicyError, StorageError
from rlft.harness.rollout import PolicyPlayer, SamplingSettings, collect_rollouts
from rlft.models import Policy, PolicyFolder, load_policy, save_policy
from rlft.models.folder import _hash_content
from rlft.models.origin import DTYPES, create_policy, hash_weights, load_base
from rlft.training.trainer import Round, prepare_optimizer, train_round
from rlft.types import Rewards, Rollouts
from rlft.types.formats import KEY, POLICY
from tests.factories import (
    ARCHITECTURES,
    FirstCharacter,
    make_lora_policy,
    make_policy,
    make_reward,
    make_task,
    make_training,
    save_base,
)
from tests.rlft.models.small_models import FAMILIES, OTHERS, make_small_policy

CPU = torch.device("cpu")
TRAINING = make_training(learning_rate=3e-3, updates_per_round=2, warmup_updates=3)


def train(policy: Policy, folder: PolicyFolder | None, round: int) -> None:
    """A round on what the policy samples itself; every other sample is called good."""
    engine = TransformersEngine()
    engine.load_policy(policy)
    tasks = [make_task(f"t{i}", prompt=f"{i}+{i}=") for i in range(3)]
    sampling = SamplingSettings(temperature=1.0, max_completion_length=6, seed=0)
    rollouts = collect_rollouts(
        tasks,
        FirstCharacter(),
        PolicyPlayer(policy, engine),
        sampling,
        num_generations=4,
        round=round,
        label="train",
    )
    rewards = Rewards(tuple(make_reward(r, float(i % 2)) for i, r in enumerate(rollouts)), weights={})
    prepare_optimizer(policy, TRAINING, folder and folder.load_optimizer)
    report = train_round(
        policy,
        Rollouts(rollouts.rows),
        rewards,
        TRAINING,
        Round(number=round, temperature=1.0, max_completion_length=6),
    )
    assert report.updates == 2


def build(kind: str, tmp_path: Path) -> Policy:
    if kind == "lora":
        return make_lora_policy(save_base(tmp_path / "base", sharpness=2.0))
    if kind == "bfloat16":
        return make_policy(sharpness=2.0, dtype="bfloat16")
    return make_policy(kind, sharpness=2.0)  # type: ignore[arg-type]


def file_bytes(folder: PolicyFolder) -> dict[str, bytes]:
    files = (path for path in folder.path.rglob("*") if path.is_file())
    return {path.relative_to(folder.path).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("kind", [*ARCHITECTURES, "lora"])
def test_saved_and_loaded_is_the_same(kind, tmp_path):
    policy = build(kind, tmp_path)
    saved = save_policy(policy, tmp_path / "one", stage="base")
    loaded = load_policy(saved, CPU)
    assert loaded.metadata == policy.metadata == saved.metadata
    live, cold = policy.model.state_dict(), loaded.model.state_dict()
    assert live.keys() == cold.keys()
    assert all(live[name].numpy().tobytes() == cold[name].numpy().tobytes() for name in live)
    assert list(policy.trainable()) == list(loaded.trainable())
    assert policy.stop_token_ids() == loaded.stop_token_ids()
    assert policy.tokenizer.get_vocab() == loaded.tokenizer.get_vocab()
    again = save_policy(loaded, tmp_path / "two")
    assert file_bytes(again) == file_bytes(saved)
    assert again.metadata == saved.metadata
    assert not loaded.model.training


@pytest.mark.slow
def test_warm_and_cold_in_a_new_process_give_the_same_bytes(tmp_path):
    kinds = {kind: build(kind, tmp_path) for kind in ("qwen3", "lora", "bfloat16")}
    warm = {}
    for kind, policy in kinds.items():
        train(policy, None, 0)
        first = save_policy(policy, tmp_path / f"{kind}-first", round=1, stage="grpo")
        train(policy, first, 1)
        warm[kind] = save_policy(policy, tmp_path / f"{kind}-warm", round=2)
        assert warm[kind].metadata.update == 4
        assert warm[kind].metadata.weights_hash != first.metadata.weights_hash
    command = [sys.executable, "-m", "tests.rlft.models.test_folder", str(tmp_path), *kinds]
    root = Path(__file__).resolve().parents[3]
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for kind in kinds:
        cold = PolicyFolder(tmp_path / f"{kind}-cold")
        assert "optimizer.safetensors" in file_bytes(cold)
        assert file_bytes(cold) == file_bytes(warm[kind])
        assert cold.metadata == warm[kind].metadata


def test_the_optimizer_comes_back_whole(tmp_path):
    policy = make_policy()
    train(policy, None, 0)
    saved = save_policy(policy, tmp_path / "one")
    loaded = load_policy(saved, CPU)
    prepare_optimizer(loaded, TRAINING, saved.load_optimizer)
    assert loaded.optimizer is not None
    assert policy.optimizer is not None
    mine, theirs = policy.optimizer, loaded.optimizer
    assert mine.masters.keys() == theirs.masters.keys()
    for name, p in mine.masters.items():
        one, other = mine.adamw.state[p], theirs.adamw.state[theirs.masters[name]]
        assert one.keys() == other.keys(), name
        assert all(torch.equal(one[key], other[key]) for key in one), name
    assert save_policy(loaded, tmp_path / "two").metadata == saved.metadata


def test_an_adapter_leaves_its_base_alone(tmp_path):
    base = save_base(tmp_path / "base")
    before = hash_weights(base)
    policy = make_lora_policy(base)
    frozen = {n: p.clone() for n, p in policy.model.named_parameters() if not p.requires_grad}
    train(policy, None, 0)
    assert hash_weights(base) == before == policy.metadata.base_hash
    assert all(torch.equal(p, frozen[n]) for n, p in policy.model.named_parameters() if n in frozen)
    saved = save_policy(policy, tmp_path / "adapter")
    names = load_file(saved.path / "model" / "adapter_model.safetensors")
    assert names
    assert all("lora_" in name for name in names)
    assert saved.metadata.base_model == str(base.resolve())


def test_a_new_adapter_changes_nothing_and_follows_from_its_seed(tmp_path):
    base = save_base(tmp_path / "base", sharpness=2.0)
    one, same, other = (make_lora_policy(base, seed=s) for s in (1, 1, 2))
    ids = torch.tensor([[4, 5, 6]])
    with torch.no_grad(), one.model.disable_adapter():
        off = one.model(ids).logits
    assert torch.equal(one.model(ids).logits, off)
    hashes = [save_policy(p, tmp_path / str(i)).metadata.weights_hash for i, p in enumerate((one, same, other))]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_weights_follow_from_the_seed_alone(architecture):
    torch.manual_seed(5)
    one = make_policy(architecture, seed=1)
    torch.manual_seed(6)
    state = torch.random.get_rng_state()
    same, other = make_policy(architecture, seed=1), make_policy(architecture, seed=2)
    assert torch.equal(state, torch.random.get_rng_state())
    weights = [torch.cat([p.flatten() for p in policy.model.parameters()]) for policy in (one, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def logprobs(policy: Policy) -> torch.Tensor:
    """Of all tokens after 40 others: positions far enough from the first for rounded ones to show."""
    ids = torch.randint(3, 16, (4, 41), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return policy.model(input_ids=ids, use_cache=False).logits.float().log_softmax(-1)


def check_live_is_cold(policy: Policy, folder: Path) -> None:
    """What is loaded says what was saved, bit for bit, and is of the same numbers in the same types."""
    loaded = load_policy(save_policy(policy, folder), CPU)
    for tensors in ("named_parameters", "named_buffers"):
        live, cold = (dict(getattr(p.model, tensors)()) for p in (policy, loaded))
        assert {name: t.dtype for name, t in live.items()} == {name: t.dtype for name, t in cold.items()}
        assert all(torch.equal(t, cold[name]) for name, t in live.items())
    assert torch.equal(logprobs(policy), logprobs(loaded))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_weights_are_the_same_live_and_loaded(architecture, dtype, tmp_path):
    policy = make_policy(architecture, dtype=dtype, sharpness=3.0)
    assert {p.dtype for p in policy.model.parameters()} == {DTYPES[dtype]}
    check_live_is_cold(policy, tmp_path / "one")


@pytest.mark.parametrize(("lora", "dtype"), [(False, "bfloat16"), (True, "float32")])
@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_a_model_is_the_same_live_and_loaded(family, lora, dtype, tmp_path):
    base, live = tmp_path / "base", make_small_policy(family)
    live.model.save_pretrained(base)
    live.tokenizer.save_pretrained(base)
    layers = ["in_proj"] if family == "mamba" else "all-linear"  # peft takes no more of its layers
    settings = LoraSettings(rank=4, target_modules=layers) if lora else None
    policy = create_policy(PolicyConfig(model=str(base), dtype=dtype, lora=settings, device="cpu"), seed=0)
    for name, parameter in policy.trainable().items():
        if "lora_B" in name:
            parameter.data += 0.1  # a new one does nothing
    check_live_is_cold(policy, tmp_path / "one")


def test_weights_of_another_type_are_those_of_float32_rounded():
    long, short = make_policy(), make_policy(dtype="bfloat16")
    for one, other in zip(long.model.parameters(), short.model.parameters(), strict=True):
        assert torch.equal(one.to(torch.bfloat16), other)
    assert short.model.lm_head.weight is short.model.model.embed_tokens.weight, "still tied"
    assert short.model.generation_config is not None
    assert short.stop_token_ids() == long.stop_token_ids()


def content_hash(policy: Policy, folder: Path) -> str:
    return save_policy(policy, folder).metadata.content_hash


def test_the_content_hash_holds_what_a_result_depends_on(tmp_path):
    base, other_base = save_base(tmp_path / "b1"), save_base(tmp_path / "b2", seed=9)
    moved = shutil.copytree(base, tmp_path / "moved")
    reference = content_hash(make_lora_policy(base), tmp_path / "0")
    assert content_hash(make_lora_policy(moved), tmp_path / "1") == reference, "where the base lies does not count"
    assert content_hash(make_lora_policy(other_base), tmp_path / "2") != reference, "a new adapter on another base"
    settings = PolicyConfig(model=str(base), lora=LoraSettings(rank=4, alpha=5), device="cpu")
    assert content_hash(create_policy(settings, seed=0), tmp_path / "3") != reference, "alpha scales the adapter"
    talkative = make_lora_policy(base)
    talkative.model.generation_config.eos_token_id = [1, 5]
    assert content_hash(talkative, tmp_path / "4") != reference, "when it stops"
    trained = make_lora_policy(base)
    trained.metadata = dataclasses.replace(trained.metadata, update=1)
    assert content_hash(trained, tmp_path / "5") != reference, "how far the optimizer is"
    full = make_policy()
    first = content_hash(full, tmp_path / "6")
    full.tokenizer.chat_template = "{{ messages }}"
    assert content_hash(full, tmp_path / "7") != first, "how prompts are read"


def test_the_order_of_target_modules_does_not_matter(tmp_path):
    # peft keeps them as a set, whose order differs from process to process
    saved = save_policy(make_lora_policy(save_base(tmp_path / "base")), tmp_path / "adapter")
    file = saved.path / "model" / "adapter_config.json"
    settings = json.loads(file.read_text())
    assert len(settings["target_modules"]) == 14
    assert settings["target_modules"] == sorted(settings["target_modules"])  # and of older ones it does not matter
    file.write_text(json.dumps(settings | {"target_modules": settings["target_modules"][::-1]}))
    assert _hash_content(saved.path, saved.metadata) == saved.metadata.content_hash
    file.write_text(json.dumps(settings | {"target_modules": settings["target_modules"][1:]}))
    assert _hash_content(saved.path, saved.metadata) != saved.metadata.content_hash


def refused(folder: PolicyFolder | Path) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        load_policy(folder if isinstance(folder, PolicyFolder) else PolicyFolder(folder), CPU)
    assert caught.value.where
    assert caught.value.fix
    return caught.value


def test_folders_that_hold_no_policy(tmp_path):
    error = refused(tmp_path)
    assert (error.what, error.where) == ("no policy.json here", str(tmp_path))
    for content in ("{", "[]", '{"format": 1, "kind": "full", "unknown": 1}', ""):
        (tmp_path / "policy.json").write_text(content)
        with pytest.raises(DamagedError, match=r"policy\.json cannot be read"):
            load_policy(PolicyFolder(tmp_path), CPU)


def test_weights_that_retention_removed(tmp_path):
    saved = save_policy(make_policy(), tmp_path / "one", round=3)
    assert saved.has_weights
    (saved.path / "model" / "model.safetensors").unlink()
    assert not saved.has_weights
    error = refused(saved)
    assert "round 3 were removed by policy.keep" in error.what
    assert "policy.keep" in error.fix


@pytest.mark.parametrize(
    ("victim", "said"),
    [
        ("model/model.safetensors", "policy.json says"),
        ("model/config.json", "does not load"),
        ("tokenizer/tokenizer.json", "does not load"),
    ],
)
def test_a_folder_without_a_seal_that_was_cut_off(victim, said, tmp_path):
    saved = save_policy(make_policy(), tmp_path / "one")
    (saved.path / victim).write_bytes((saved.path / victim).read_bytes()[:40])
    with pytest.raises(DamagedError, match=said) as caught:
        load_policy(saved, CPU)
    assert caught.value.where == str(saved.path / "model")


def shift(file: Path, count: int) -> None:
    """Make the header of a file of tensors longer by spaces, which means the same tensors at other places."""
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    file.write_bytes((size + count).to_bytes(8, "little") + content[8 : 8 + size] + b" " * count + content[8 + size :])


@pytest.mark.parametrize("count", [4, 12, 36])
def test_loaded_weights_lie_in_memory_of_their_own_that_is_aligned(count, tmp_path):
    file = save_base(tmp_path / "base") / "model.safetensors"
    size = int.from_bytes(file.read_bytes()[:8], "little")
    shift(file, -(8 + size) % 64 + count)
    assert {tensor.data_ptr() % 64 for tensor in load_file(file).values()} == {count}  # what safetensors hands out
    model, _ = load_base(str(file.parent), None, "float32")
    assert {tensor.data_ptr() % 64 for tensor in (*model.parameters(), *model.buffers())} == {0}
    saved = save_policy(make_policy(), tmp_path / "policy")
    weights = saved.path / "model" / "model.safetensors"
    shift(weights, count)
    metadata = dataclasses.replace(saved.metadata, weights_hash=hash_weights(weights.parent))
    (saved.path / "policy.json").write_text(json.dumps({KEY: POLICY.version, **dataclasses.asdict(metadata)}))
    loaded = load_policy(saved, CPU)
    assert {tensor.data_ptr() % 64 for tensor in loaded.trainable().values()} == {0}
    before = {name: tensor.clone() for name, tensor in loaded.trainable().items()}
    with weights.open("r+b") as content:
        content.seek(-2000, os.SEEK_END)
        content.write(b"\x11" * 2000)
    assert all(torch.equal(tensor, before[name]) for name, tensor in loaded.trainable().items())


def test_an_adapter_whose_base_has_changed_or_gone(tmp_path):
    base = save_base(tmp_path / "base")
    saved = save_policy(make_lora_policy(base), tmp_path / "adapter")
    weights = load_file(base / "model.safetensors")
    name = next(iter(weights))
    save_file(weights | {name: weights[name] + 1}, base / "model.safetensors", metadata={"format": "pt"})
    assert "have changed since" in refused(saved).what
    shutil.rmtree(base)
    assert "does not load" in refused(saved).what


def create(model: Path | str, **options) -> Policy:
    return create_policy(PolicyConfig(model=str(model), device="cpu", **options), seed=0)


def no_folder(base):
    return base.parent / "nothing"


def no_model(base):
    folder = base.parent / "empty"
    folder.mkdir()
    return folder


def only_pickled(base):
    torch.save(load_file(base / "model.safetensors"), base / "pytorch_model.bin")
    (base / "model.safetensors").unlink()
    return base


def cut_off(base):
    file = base / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    return base


def a_layer_missing(base):
    weights = load_file(base / "model.safetensors")
    weights.pop("model.layers.1.mlp.up_proj.weight")
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    return base


def other_shape(base):
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(config | {"intermediate_size": 32}))
    return base


def no_tokenizer(base):
    for file in base.glob("tokenizer*"):
        file.unlink()
    return base


@pytest.mark.parametrize(
    "spoil", [no_folder, no_model, only_pickled, cut_off, a_layer_missing, other_shape, no_tokenizer]
)
def test_models_that_do_not_load(spoil, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    name = spoil(save_base(tmp_path / "base"))
    with pytest.raises(PolicyError) as caught:
        create(name)
    assert caught.value.where == "policy.model"
    assert str(name) in caught.value.what
    assert "*.safetensors" in caught.value.fix


def test_an_adapter_that_does_not_fit(tmp_path):
    with pytest.raises(PolicyError) as caught:
        create(save_base(tmp_path / "base"), lora=LoraSettings(target_modules=["no_such_layer"]))
    assert caught.value.where == "policy.lora.target_modules"
    assert "all-linear" in caught.value.fix


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_a_gpu_that_is_not_there():
    scratch = FromScratchConfig(characters="ab")
    with pytest.raises(PolicyError, match="no GPU"):
        create_policy(PolicyConfig(from_scratch=scratch, device="cuda"), seed=0)


def test_a_full_disk_says_so(tmp_path, monkeypatch):
    policy = make_policy()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(policy.tokenizer, "save_pretrained", full)
    with pytest.raises(StorageError, match="No space left") as caught:
        save_policy(policy, tmp_path / "one")
    assert "make room" in caught.value.fix


if __name__ == "__main__":
    for kind in sys.argv[2:]:
        source, target = (Path(sys.argv[1]) / f"{kind}-{name}" for name in ("first", "cold"))
        policy = load_policy(PolicyFolder(source), CPU)
        train(policy, PolicyFolder(source), 1)
        save_policy(policy, target, round=2)
