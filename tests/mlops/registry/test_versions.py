import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import mlflow
import pandas as pd
import pytest
import torch
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, Qwen3Config, Qwen3ForCausalLM

from mlops.registry import logged_model, served_policy
from mlops.registry.client import RegistryClient, current_champion, damaged_versions, download_version
from mlops.registry.logged_model import ServedFiles, damage_of
from mlops.registry.versions import register_policy_version
from mlops.tracking.address import answering
from rlft.config import LoraSettings, PolicyConfig
from rlft.engines.base import Sampling
from rlft.engines.transformers_engine import TransformersEngine
from rlft.errors import DamagedError, PolicyError, TrackerError, WeightsRemovedError
from rlft.evaluation.promotion import Decision
from rlft.models import load_policy, origin, save_policy
from rlft.models.export import write_export
from rlft.models.origin import create_policy
from rlft.models.tokens import character_tokenizer, render_prompt
from tests.factories import save_base
from tests.mlflow_stores import new_store

RULES = {"improvement": "fails", "suites": "passes"}
PROMOTE, KEEP = Decision(True, ("passes: base",)), Decision(False, ("fails: base", "no champion"), rules=RULES)
MARKED = Decision(False, ("fails: in the slice x=[a](http://b) *c* $d$", *["long " * 2000] * 3))
# Loads a version in a fresh process, with no rlft in reach, and prints greedy and sampled answers.
ANSWER = """
import json, sys
import mlflow, pandas as pd
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(sys.argv[2])
ask = [{"role": "user", "content": "1+1="}]
greedy = model.predict(pd.DataFrame({"prompt": ["1+1=", "2+"]}), params={"max_new_tokens": 5})
messages = model.predict(pd.DataFrame({"messages": [ask, ask]}))
sampled = [model.predict(pd.DataFrame({"prompt": ["1+1="]}), params={"temperature": 2.0, "seed": s}) for s in (1, 1, 2)]
print(json.dumps([greedy, messages, sampled, "rlft" in sys.modules]))
"""


def write_policy(folder, model, tokenizer, **metadata):
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "tokenizer")
    (folder / "optimizer.safetensors").write_bytes(b"large")
    given = {"kind": "full", "base_model": None, "base_revision": None, "base_hash": None, "dtype": "float32"}
    given |= {"round": 3, "parent": None, "weights_hash": origin.hash_weights(folder / "model")} | metadata
    (folder / "policy.json").write_text(json.dumps({"format": 1, **given}))
    return folder


def qwen(tokenizer, seed):
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "head_dim": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "initializer_range": 0.5}
    ids = {"vocab_size": len(tokenizer), "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
    return Qwen3ForCausalLM(Qwen3Config(**sizes, **heads, **ids, max_position_embeddings=64)).eval()


def gpt2(tokenizer, seed):
    torch.manual_seed(seed)
    ids = {"vocab_size": len(tokenizer), "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1}
    return GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=1, n_head=2, n_positions=64, initializer_range=0.5, **ids))


@pytest.fixture(scope="module")
def tokenizer():
    return character_tokenizer("0123456789+=-")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlflow")
    client = RegistryClient(new_store(folder))
    return client, client.create_experiment("registry", artifact_location=f"file:{folder}/artifacts")


@pytest.fixture(scope="module")
def full(tmp_path_factory, tokenizer):
    return write_policy(tmp_path_factory.mktemp("full"), qwen(tokenizer, 0), tokenizer)


@pytest.fixture(scope="module")
def adapter(tmp_path_factory, tokenizer):
    """An adapter whose B matrices are not zero, so that it changes the logits."""
    base = tmp_path_factory.mktemp("base")
    qwen(tokenizer, 1).save_pretrained(base)
    model = get_peft_model(
        AutoModelForCausalLM.from_pretrained(base), LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    )
    torch.manual_seed(2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.5)
    names = {"kind": "adapter", "base_model": str(base), "base_hash": origin.hash_weights(base)}
    return write_policy(tmp_path_factory.mktemp("adapter"), model, tokenizer, **names)


def register(store, name, folder, decision=PROMOTE, run_id=None, **kwargs):
    client, experiment = store
    run_id = run_id or client.create_run(experiment).info.run_id
    files = ServedFiles(folder, **{key: kwargs.pop(key) for key in ("description", "max_new_tokens") if key in kwargs})
    return register_policy_version(client.tracking_uri, run_id, name, files, decision, **kwargs)


def greedy(model, tokenizer, prompt, count):
    """What `generate` should say, by the plainest loop there is."""
    ids = render_prompt(tokenizer, [{"role": "user", "content": prompt}])
    start = len(ids)
    while len(ids) < start + count and (len(ids) == start or ids[-1] != tokenizer.eos_token_id):
        with torch.no_grad():
            ids = [*ids, int(model(torch.tensor([ids])).logits[0, -1].argmax())]
    return tokenizer.decode(ids[start:], skip_special_tokens=True)


@pytest.mark.slow
def test_the_champion_answers_in_a_fresh_process(store, full, tokenizer, tmp_path):
    before = mlflow.get_tracking_uri(), mlflow.active_run(), dict(os.environ)
    registered = register(store, "fresh", full, max_new_tokens=7)
    assert (mlflow.get_tracking_uri(), mlflow.active_run(), dict(os.environ)) == before
    assert registered.aliases == ("challenger", "champion")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}
    result = subprocess.run(
        [sys.executable, "-c", ANSWER, store[0].tracking_uri, "models:/fresh@champion"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    answers, messages, sampled, knows_rlft = json.loads(result.stdout.splitlines()[-1])
    model = qwen(tokenizer, 0)
    assert answers == [greedy(model, tokenizer, "1+1=", 5), greedy(model, tokenizer, "2+", 5)]
    assert len(answers[0]) > 0
    assert messages == [greedy(model, tokenizer, "1+1=", 7)] * 2  # the registered default
    assert sampled[0] == sampled[1] != sampled[2]
    assert not knows_rlft


def test_an_adapter_gives_the_logits_of_peft(store, adapter, tokenizer):
    registered = register(store, "adapter", adapter, KEEP)
    files = store[0].get_model_version_download_uri("adapter", registered.version)
    loaded = mlflow.pyfunc.load_model(files)
    served = loaded.unwrap_python_model()
    base = AutoModelForCausalLM.from_pretrained(json.loads((adapter / "policy.json").read_text())["base_model"])
    ids = torch.tensor([[3, 4, 5, 6]])
    with torch.no_grad():
        plain = base(ids).logits.clone()
        direct = PeftModel.from_pretrained(base, str(adapter / "model"))(ids).logits
        found = served.model(ids).logits
    assert torch.equal(found, direct)
    assert (found - plain).abs().max() > 0.1
    assert loaded.predict(pd.DataFrame({"prompt": ["1+"]}), params={"max_new_tokens": 4}) == [
        greedy(served.model, tokenizer, "1+", 4)
    ]


def test_an_adapter_refuses_another_base(adapter, tokenizer, tmp_path, monkeypatch):
    settings = json.loads((adapter / "policy.json").read_text())
    qwen(tokenizer, 9).save_pretrained(tmp_path / "other")
    monkeypatch.setenv("BASE_MODEL", str(tmp_path / "other"))
    with pytest.raises(RuntimeError, match=r"are not those the adapter was trained on .*set BASE_MODEL"):
        served_policy.load_weights(adapter, settings)
    monkeypatch.setenv("BASE_MODEL", str(tmp_path / "nowhere"))
    with pytest.raises(RuntimeError, match="does not load; set BASE_MODEL"):
        served_policy.load_weights(adapter, settings)
    monkeypatch.setenv("BASE_MODEL", settings["base_model"])
    assert served_policy.load_weights(adapter, settings | {"base_model": "moved/away"}) is not None


def test_what_is_decided_anew_becomes_a_version_more_only_if_it_is_promoted(store, full):
    client, experiment = store
    run_id = client.create_run(experiment).info.run_id

    def decide(decision, champion, look, **more):
        tags = {"rlft.compared.version": champion, "rlft.compared.weights_hash": "h", "rlft.decided_at": look}
        return register(store, "anew", full, decision, run_id=run_id, tags=tags, **more)

    assert decide(KEEP, "", "look1").aliases == ("challenger",)
    assert decide(KEEP, "", "look2", anew=True).version == "1"  # refused again: no version more
    assert decide(PROMOTE, "", "look2").version == "1"  # a run that is resumed does not decide anew
    found = decide(PROMOTE, "", "look2", anew=True)
    assert (found.version, found.aliases) == ("2", ("challenger", "champion"))
    first, second = (client.get_model_version("anew", number) for number in ("1", "2"))
    assert (first.tags["rlft.promote"], second.tags["rlft.promote"]) == ("false", "true")
    assert second.tags["rlft.weights_hash"] == first.tags["rlft.weights_hash"]
    assert second.source != first.source  # each has its own model card
    assert decide(PROMOTE, "", "look2", anew=True).version == "2"  # the same decision
    client.set_registered_model_alias("anew", "champion", "1")
    assert decide(PROMOTE, "", "look2", anew=True).aliases == ("challenger",)  # what a person took back stays so
    assert decide(PROMOTE, "1", "look2", anew=True).version == "3"  # beside another champion


def test_a_description_shows_text_as_it_is_and_fits(store, full):
    number = register(store, "described", full, MARKED).version
    description = store[0].get_model_version("described", number).description
    assert description.startswith(
        "Not promoted: 1 of 1 rules fails.\n\n- fails: in the slice x=\\[a\\](http://b) \\*c\\* \\$d\\$\n- long"
    )
    assert len(description) == 5000


def test_what_is_registered(store, full):
    client = store[0]
    registered = register(store, "content", full, KEEP, tags={"rlft.tasks": "fingerprint"})
    assert registered.aliases == ("challenger",)
    version = client.get_model_version("content", registered.version)
    assert version.tags["rlft.promote"] == "false"
    assert version.tags["rlft.reasons"] == "fails: base\nno champion"
    assert version.tags["rlft.gate"] == "fails: improvement"
    shown = MlflowClient(client.tracking_uri).get_model_version("content", registered.version).tags
    assert sorted(shown) == ["mlflow.rlft.record", "rlft.gate", "rlft.tasks"]  # the page of all versions lists each
    decided = "Not promoted: 1 of 1 rules fails.\n\n- fails: base\n- no champion\n\n"
    assert version.description.startswith(f"{decided}Made by the run [")
    assert version.tags["rlft.tasks"] == "fingerprint"
    assert version.tags["rlft.round"] == "3"
    assert version.tags["rlft.run_id"] == version.run_id
    logged = client.get_logged_model(registered.model_id)
    assert json.loads(logged.tags["mlflow.modelVersions"]) == [{"name": "content", "version": 1}]
    assert (logged.status, logged.source_run_id) == ("READY", version.run_id)
    assert [o.model_id for o in client.get_run(version.run_id).outputs.model_outputs] == [registered.model_id]

    folder = Path(logged.artifact_location.removeprefix("file://"))
    assert not list(folder.rglob("optimizer.safetensors"))
    assert {p.name for p in (folder / "artifacts" / "policy").iterdir()} == {"policy.json", "model", "tokenizer"}
    requirements = (folder / "requirements.txt").read_text().split()
    assert f"torch=={torch.__version__.split('+')[0]}" in requirements
    assert all("==" in line for line in requirements)


@pytest.mark.slow
def test_versions_and_aliases(store, full, tokenizer, tmp_path):
    client = store[0]
    uri = client.tracking_uri
    assert current_champion(uri, "aliases") is None
    run_id = client.create_run(store[1]).info.run_id
    first = register(store, "aliases", full, run_id=run_id)
    assert current_champion(uri, "aliases").version == first.version == "1"

    second = register(store, "aliases", write_policy(tmp_path / "p", gpt2(tokenizer, 3), tokenizer), KEEP)
    assert (second.version, second.aliases) == ("2", ("challenger",))
    assert client.get_registered_model("aliases").aliases.keys() == {"champion", "challenger"}
    assert current_champion(uri, "aliases").version == "1"

    # A replay of the first run makes no version and moves no alias, not even back onto itself.
    client.set_registered_model_alias("aliases", "champion", "2")
    again = register(store, "aliases", full, run_id=run_id)
    assert (again.version, again.model_id, again.aliases) == ("1", first.model_id, ())
    assert len(client.search_model_versions("name = 'aliases'")) == 2
    assert current_champion(uri, "aliases").version == "2"

    # The same weights from another run are another version: they have another history.
    assert register(store, "aliases", full, KEEP).version == "3"


def test_aliases_are_set_when_a_run_was_killed_before_them(store, full, monkeypatch):
    run_id = store[0].create_run(store[1]).info.run_id
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "set_registered_model_alias", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            register(store, "killed", full, run_id=run_id)
    assert current_champion(store[0].tracking_uri, "killed") is None
    assert register(store, "killed", full, run_id=run_id).aliases == ("challenger", "champion")
    assert len(store[0].search_model_versions("name = 'killed'")) == 1


def test_the_champion_can_be_downloaded_and_is_checked(store, full, tmp_path):
    uri = store[0].tracking_uri
    registered = register(store, "download", full)
    folder = download_version(uri, "download", "1", tmp_path / "a")
    champion, expected = current_champion(uri, "download"), origin.hash_weights(full / "model")
    assert champion.weights_hash == expected == origin.hash_weights(folder / "model")
    assert json.loads((folder / "policy.json").read_text())["round"] == 3
    weights = registered_weights(store, registered)
    weights.write_bytes(weights.read_bytes()[:-4] + b"oops")
    with pytest.raises(DamagedError, match="models:/download/1: the files have sha256"):
        download_version(uri, "download", "1", tmp_path / "b")


def test_a_champion_whose_files_are_gone_is_damaged_and_one_far_away_that_does_not_answer_is_not(
    store, full, tmp_path, monkeypatch
):
    uri = store[0].tracking_uri
    registered = register(store, "gone", full, tags={"zenml.run_name": "my run"})
    shutil.rmtree(registered_weights(store, registered).parents[1])
    gone = pytest.raises(DamagedError, match="models:/gone/1: the files of this version cannot be read")
    with gone as damage, answering(uri):
        download_version(uri, "gone", "1", tmp_path / "a")
    assert (damage.value.run, damage.value.step) == ("my run", "register_policy")
    away = "http://127.0.0.1:9/api/2.0/mlflow-artifacts/artifacts/1"  # nobody listens at this port
    monkeypatch.setattr(MlflowClient, "get_model_version_download_uri", lambda *_: away)
    with pytest.raises(TrackerError, match="did not answer"), answering(uri):
        download_version(uri, "gone", "1", tmp_path / "b")


def registered_weights(store, registered):
    location = store[0].get_logged_model(registered.model_id).artifact_location.removeprefix("file://")
    return Path(location) / "artifacts" / "policy" / "model" / "model.safetensors"


def edit_config(file):
    """Change a file beside the weights, which stays readable."""
    beside = file.parent / "config.json"
    beside.write_text(beside.read_text().replace('"use_cache": true', '"use_cache": false'))


def edit_context(file):
    """Change what the environment shows."""
    (file.parents[1] / "context.json").write_text('{"system_prompt": "Be rude."}')


def overwrite_end(file):
    file.write_bytes(file.read_bytes()[:-4] + b"oops")


@pytest.mark.slow
@pytest.mark.parametrize("harm", [overwrite_end, Path.unlink, edit_config, edit_context])
def test_a_damaged_version_is_neither_served_nor_found_whole_and_is_replaced(store, full, harm, tmp_path):
    client = RegistryClient(new_store(tmp_path))
    store = client, client.create_experiment("registry", artifact_location=f"file:{tmp_path}/artifacts")
    run_id = client.create_run(store[1]).info.run_id
    given = {"tags": {"zenml.run_name": "my run"}, "description": {"context.json": "{}", "README.md": "# A policy"}}
    registered = register(store, "damaged", full, run_id=run_id, **given)
    assert list(damaged_versions(client.tracking_uri)) == []
    harm(registered_weights(store, registered))
    (damage,) = damaged_versions(client.tracking_uri)
    assert damage.where == "models:/damaged/1"
    assert (damage.run, damage.step) == ("my run", "register_policy")
    with pytest.raises((RuntimeError, MlflowException)):
        mlflow.pyfunc.load_model(client.get_model_version_download_uri("damaged", "1"))
    given["description"] = {"context.json": "{}", "README.md": "# Told in other words"}
    assert register(store, "damaged", full, run_id=run_id, **given) == registered  # the same version, whole again
    assert list(damaged_versions(client.tracking_uri)) == []
    mlflow.pyfunc.load_model(client.get_model_version_download_uri("damaged", "1"))


def test_a_file_whose_name_holds_the_line_of_another_has_another_hash(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "a").write_text("one")
    (model / "b").write_text("two")
    hashes = [logged_model.hash_files(tmp_path), served_policy.hash_files(tmp_path)]
    line = f"a {hashlib.sha256(b'one').hexdigest()}\nmodel"  # model/a HASH, then model/b HASH: in one name
    (model / "a").unlink()
    (model / line).mkdir()
    (model / "b").rename(model / line / "b")
    for before, after in zip(
        hashes, [logged_model.hash_files(tmp_path), served_policy.hash_files(tmp_path)], strict=True
    ):
        assert before != after


def test_a_version_without_a_description_is_what_earlier_versions_are(store, full, tmp_path):
    registered = register(store, "earlier", full, KEEP)
    tags = store[0].get_model_version("earlier", registered.version).tags
    # As they were hashed before there were descriptions: `<path> <sha256>` of each file in the order of the paths.
    digest = hashlib.sha256()
    for name in sorted(f.relative_to(full).as_posix() for f in full.rglob("*") if f.is_file()):
        if name != "optimizer.safetensors":
            digest.update(f"{name} {hashlib.sha256((full / name).read_bytes()).hexdigest()}\n".encode())
    assert tags["rlft.files_hash"] == digest.hexdigest()
    assert damage_of(store[0], store[0].get_model_version("earlier", registered.version)) is None


def appended(name):
    """An edit of a file that stays readable as JSON or text."""
    return lambda folder: (folder / name).write_text((folder / name).read_text() + " ")


def added(name, text="{}"):
    return lambda folder: (folder / name).write_text(text)


def with_its_config(folder):
    """An edit that takes along the hash which the version's own folder holds."""
    (folder / "tokenizer/tokenizer_config.json").write_text("{}")
    config = folder.parents[1] / "MLmodel"
    config.write_text(re.sub("files_hash: .*", f"files_hash: {logged_model.hash_files(folder)}", config.read_text()))


EDITS = {
    "tokenizer": appended("tokenizer/tokenizer.json"),
    "chat template": added("tokenizer/chat_template.jinja", "{{ messages }}"),
    "generation config": appended("model/generation_config.json"),
    "policy.json": lambda folder: (folder / "policy.json").write_text('{"kind": "full"}'),
    "cut off": lambda folder: (folder / "policy.json").write_text("{"),
    "deleted": lambda folder: (folder / "tokenizer/tokenizer_config.json").unlink(),
    "no policy.json": lambda folder: (folder / "policy.json").unlink(),
    "deep": added("model/custom.py", "print()"),
    "beside": added("notes.txt", ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("edit", [*EDITS.values(), with_its_config], ids=[*EDITS, "with the hash beside it"])
def test_every_file_of_a_version_counts(store, full, edit, tmp_path):
    store, registered = version_of(full, tmp_path)
    folder = registered_weights(store, registered).parents[1]
    uri = store[0].tracking_uri
    assert download_version(uri, "m", "1", tmp_path / "a").is_dir()
    edit(folder)
    with pytest.raises(DamagedError, match=r"models:/m/1: .*register"):
        download_version(uri, "m", "1", tmp_path / "b")
    assert [damage.where for damage in damaged_versions(uri)] == ["models:/m/1"]
    if edit is not with_its_config:  # a server has nothing else to go by
        with pytest.raises(Exception, match=r"the files in .* have changed"):
            mlflow.pyfunc.load_model(folder.parents[1].as_posix())


def test_the_settings_of_an_adapter_count(adapter, tmp_path):
    store, registered = version_of(adapter, tmp_path)
    folder = registered_weights(store, registered).parents[1]
    appended("model/adapter_config.json")(folder)
    with pytest.raises(DamagedError, match="the files have sha256"):
        download_version(store[0].tracking_uri, "m", "1", tmp_path / "b")
    with pytest.raises(Exception, match=r"the files in .* have changed"):
        mlflow.pyfunc.load_model(folder.parents[1].as_posix())


def version_of(policy, tmp_path):
    client = RegistryClient(new_store(tmp_path))
    store = client, client.create_experiment("registry", artifact_location=f"file:{tmp_path}/artifacts")
    return store, register(store, "m", policy)


def test_a_champion_that_was_deleted_is_none(full, tmp_path):
    store, _ = version_of(full, tmp_path)
    client = store[0]
    register(store, "m", full)
    client.delete_model_version("m", "2")  # MLflow takes its aliases along
    assert client.get_registered_model("m").aliases == {}
    assert current_champion(client.tracking_uri, "m") is None


def test_a_folder_without_a_policy_is_refused(store, full, tmp_path):
    with pytest.raises(PolicyError, match=r"no policy\.json"):
        register(store, "none", tmp_path)
    (tmp_path / "policy.json").write_text((full / "policy.json").read_text())
    with pytest.raises(WeightsRemovedError, match="weights of the policy that is to be registered"):
        register(store, "none", tmp_path)


def test_the_served_file_stands_alone_and_agrees_with_the_library(full, tokenizer, tmp_path):
    tree = ast.parse(logged_model.program_text())
    imported = {
        n.names[0].name if isinstance(n, ast.Import) else n.module for n in ast.walk(tree) if hasattr(n, "names")
    }
    assert not any(str(module).split(".")[0] in ("rlft", "steps", "pipelines", "mlops") for module in imported)
    assert served_policy.hash_weights(full / "model") == origin.hash_weights(full / "model")
    served = Path(shutil.copytree(full, tmp_path / "served"))
    assert served_policy.hash_files(served) == logged_model.hash_files(served)
    messages = [{"role": "system", "content": "1+"}, {"role": "user", "content": "2="}]
    assert served_policy.prompt_ids(tokenizer, messages) == render_prompt(tokenizer, messages)
    chat = character_tokenizer("0123456789+=-<>")
    chat.chat_template = (
        "{% for m in messages %}<{{ m['content'] }}>{% endfor %}{% if add_generation_prompt %}={% endif %}"
    )
    assert served_policy.prompt_ids(chat, messages) == render_prompt(chat, messages)
    assert chat.decode(served_policy.prompt_ids(chat, messages)) == "<1+><2=>="


# What a base may set for `generate`: each of the first five changes greedy decoding, and the last two cannot be saved.
SETS_EVERYTHING = {
    "repetition_penalty": 5.0,
    "no_repeat_ngram_size": 1,
    "num_beams": 3,
    "min_new_tokens": 30,
    "suppress_tokens": [3, 4, 5],
    "do_sample": False,
    "temperature": 0.9,
    "top_p": 0.6,
}


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=2)])
def test_what_is_registered_and_exported_answers_as_what_was_evaluated(tmp_path, lora):
    base = save_base(tmp_path / "base")
    file = base / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | SETS_EVERYTHING))
    policy = create_policy(PolicyConfig(model=str(base), device="cpu", lora=lora), seed=0)
    policy.model.generation_config.eos_token_id = [1, 2]  # a template's end token comes on top
    saved = save_policy(policy, tmp_path / "policy")
    loaded = load_policy(saved, torch.device("cpu"))
    assert loaded.stop_token_ids() == policy.stop_token_ids() == (1, 2)
    engine = TransformersEngine()
    engine.load_policy(loaded)
    ids = policy.tokenizer("1+2=").input_ids
    expected = engine.generate([ids], Sampling(0.0, 20), [0])[0].token_ids.tolist()
    served = served_policy.ServedPolicy()
    served.load_context(SimpleNamespace(artifacts={"policy": str(saved.path)}, model_config={}))
    text = served.answer(ids, max_new_tokens=20, temperature=0.0, seed=0)
    assert text == policy.tokenizer.decode(expected, skip_special_tokens=True)
    (tmp_path / "merged").mkdir()
    write_export(saved, tmp_path / "merged", merge=True)
    exported = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    inputs = torch.tensor([ids])
    found = exported.generate(inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=20)
    assert found[0, len(ids) :].tolist() == expected


@pytest.mark.parametrize(
    ("configured", "expected"),
    [(7, [7]), ([7, 8], [7, 8]), (None, [1])],  # 1 is the tokenizer's end token
)
def test_stop_tokens(tokenizer, configured, expected):
    model = qwen(tokenizer, 0)
    model.generation_config.eos_token_id = configured
    assert served_policy.stop_token_ids(model, tokenizer) == expected
