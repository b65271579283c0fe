"""Exports that transformers and peft load, and those that are refused with nothing left behind."""

import json

import numpy as np
import pytest
import torch
from peft import AutoPeftModelForCausalLM
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from rlft.engines.proof import score_tokens
from rlft.errors import DamagedError, PolicyError, RlftError
from rlft.models import Policy, load_policy
from rlft.models.export import check_target, export_policy
from tests.rlft.models.exported_policies import CARD, CONTEXT, TEMPLATE, copied_base, stored, stories_policy

LABEL = {"name": "stories", "version": "3", "alias": "champion"}
PROMPT, ANSWER = [1, 403, 407, 261], [378, 400, 262, 300, 411]


@pytest.fixture(scope="module")
def base(shared_data):
    return shared_data / "model_stories260k" / "hf"


@pytest.fixture(scope="module")
def adapter(base, tmp_path_factory):
    return stored(stories_policy(base), tmp_path_factory.mktemp("adapter") / "policy")


def scores_of(model, metadata, tokenizer):
    return score_tokens(Policy(model.eval(), tokenizer, metadata), PROMPT, ANSWER)


def own_scores(source):
    return score_tokens(load_policy(source, torch.device("cpu")), PROMPT, ANSWER)


def files_of(folder):
    assert not any(file.is_symlink() for file in folder.rglob("*"))
    assert not list(folder.parent.glob("rlft-export-*"))
    return {file.name for file in folder.iterdir()}


def test_an_adapter_loads_with_peft_and_with_transformers(adapter, base, tmp_path):
    done = export_policy(adapter, tmp_path / "new" / "out", merge=False, label=LABEL)
    names = files_of(done.folder)
    assert {"adapter_config.json", "adapter_model.safetensors", "generation_config.json", "README.md"} <= names
    assert {"tokenizer.json", "chat_template.jinja", "context.json", "rlft_export.json"} <= names
    assert not {"policy.json", "optimizer.safetensors", "config.json", "model.safetensors"} & names
    settings = json.loads((done.folder / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == str(base)
    assert settings["inference_mode"] is True
    assert "revision" in settings
    assert (done.folder / "README.md").read_text() == CARD
    assert (done.folder / "context.json").read_text() == CONTEXT
    tokenizer = AutoTokenizer.from_pretrained(done.folder)
    assert tokenizer.chat_template == TEMPLATE
    assert GenerationConfig.from_pretrained(done.folder).eos_token_id == [1, 2]
    for kind in (AutoPeftModelForCausalLM, AutoModelForCausalLM):
        model = kind.from_pretrained(done.folder, dtype=torch.float32)
        found = scores_of(model, done.metadata, tokenizer)
        assert np.abs(found - own_scores(adapter)).max() < 1e-4
    plain = AutoModelForCausalLM.from_pretrained(base)
    assert np.abs(scores_of(plain, done.metadata, tokenizer) - own_scores(adapter)).max() > 0.05  # it is not the base's


def test_a_merged_one_needs_no_base(base, tmp_path):
    own = copied_base(base, tmp_path / "base")
    source = stored(stories_policy(own), tmp_path / "policy")
    expected = own_scores(source)
    done = export_policy(source, tmp_path / "out", merge=True, label=LABEL)
    (own / "model.safetensors").unlink()
    names = files_of(done.folder)
    assert {"config.json", "model.safetensors", "generation_config.json", "tokenizer.json", "README.md"} <= names
    assert not {name for name in names if name.startswith("adapter")}
    assert str(own) not in (done.folder / "config.json").read_text()
    model = AutoModelForCausalLM.from_pretrained(done.folder)
    assert model.dtype == torch.float32
    found = scores_of(model, done.metadata, AutoTokenizer.from_pretrained(done.folder))
    assert np.abs(found - expected).max() < 1e-4


@pytest.mark.parametrize("layers", [["q_proj", "lm_head"], ["q_proj", "embed_tokens"]])
def test_a_merged_one_has_an_embedding_apart_from_a_head_that_was_tied_to_it(base, tmp_path, layers):
    source = stored(stories_policy(base, layers=layers), tmp_path / "policy")
    done = export_policy(source, tmp_path / "out", merge=True, label=LABEL)
    model = AutoModelForCausalLM.from_pretrained(done.folder)
    assert not torch.equal(model.lm_head.weight, model.model.embed_tokens.weight)
    found = scores_of(model, done.metadata, AutoTokenizer.from_pretrained(done.folder))
    assert np.abs(found - own_scores(source)).max() < 1e-4


def test_a_merged_one_has_the_data_type_of_the_policy_and_not_that_in_which_its_base_is_stored(base, tmp_path):
    own = copied_base(base, tmp_path / "base", torch.bfloat16)
    source = stored(stories_policy(own), tmp_path / "policy")
    done = export_policy(source, tmp_path / "out", merge=True, label=LABEL)
    assert AutoModelForCausalLM.from_pretrained(done.folder).dtype == torch.float32


@pytest.mark.parametrize("merge", [False, True])
def test_a_policy_with_all_its_weights_is_copied(base, tmp_path, merge):
    source = stored(stories_policy(base, lora=False), tmp_path / "policy")
    done = export_policy(source, tmp_path / "out", merge=merge, label=LABEL)
    assert done.form == "full"
    weights = [(folder / "model.safetensors").read_bytes() for folder in (source.path / "model", done.folder)]
    assert weights[0] == weights[1]


def test_the_record_says_what_it_is(adapter, base, tmp_path):
    done = export_policy(adapter, tmp_path / "out", merge=False, label=LABEL)
    record = json.loads((done.folder / "rlft_export.json").read_text())
    assert {key: record[key] for key in LABEL} == LABEL
    assert record["form"] == "adapter"
    assert record["base"] == {"name": str(base), "revision": None, "sha256": adapter.metadata.base_hash}
    assert record["weights_sha256"] == adapter.metadata.weights_hash


def test_a_base_that_has_changed_is_refused_before_anything_is_written(base, tmp_path):
    own = copied_base(base, tmp_path / "base")
    source = stored(stories_policy(own), tmp_path / "policy")
    content = bytearray((own / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (own / "model.safetensors").write_bytes(bytes(content))
    for merge in (False, True):
        with pytest.raises(PolicyError, match=r"base model .* have changed since"):
            export_policy(source, tmp_path / "out", merge=merge, label=LABEL)
    assert not (tmp_path / "out").exists()


def test_a_damaged_policy_is_refused(base, tmp_path):
    source = stored(stories_policy(base), tmp_path / "policy")
    file = source.path / "model" / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    with pytest.raises(DamagedError):
        export_policy(source, tmp_path / "out", merge=False, label=LABEL)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_left_alone(adapter, tmp_path):
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(RlftError, match="this is there already"):
        export_policy(adapter, tmp_path, merge=False, label=LABEL)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_a_file_is_refused_and_a_link_is_followed(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RlftError, match="this is there already"):
        check_target(tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert check_target(tmp_path / "link") == tmp_path / "there"
