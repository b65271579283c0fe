import sys

import numpy as np
import pytest
import torch
from transformers import BertModel

from rlft.environments.search_embedding import FunctionEmbedding, ModelEmbedding, cached_vectors, load_embedding
from rlft.environments.search_index import CorpusIndex
from rlft.errors import EnvironmentSetupError
from tests.rlft.environments.embeddings import save_tiny_model
from tests.rlft.environments.test_search_index import ROWS, write


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def test_vectors_are_the_mean_over_real_tokens_scaled_to_length_1(model):
    # by hand from the model: letters are numbered from 2 on, and padding beside the longer text must not count
    bert = BertModel.from_pretrained(model).eval()
    with torch.no_grad():
        mean = bert(input_ids=torch.tensor([[2, 3, 4]])).last_hidden_state[0].mean(dim=0)
    expected = (mean / mean.norm()).numpy()
    vectors = ModelEmbedding(str(model)).documents(["abc", "a longer text"])
    assert np.allclose(vectors[0], expected, atol=1e-6)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


def test_texts_beyond_the_models_length_are_cut(model):
    embedding = ModelEmbedding(str(model))
    assert np.allclose(embedding.query("ab" * 16), embedding.query("ab" * 500), atol=1e-6)  # 32 positions
    short = ModelEmbedding(str(model), max_tokens=2)
    assert np.allclose(short.query("abzzz"), short.query("ab"), atol=1e-6)


def test_prefixes_go_before_texts(model):
    plain = ModelEmbedding(str(model))
    prefixed = ModelEmbedding(str(model), query_prefix="ask ", document_prefix="doc ")
    assert np.allclose(prefixed.query("cat"), plain.query("ask cat"), atol=1e-6)
    assert np.allclose(prefixed.documents(["cat"]), plain.documents(["doc cat"]), atol=1e-6)


def test_the_fingerprint_is_that_of_weights_and_settings_not_of_the_folders_name(model, tmp_path):
    same, other = save_tiny_model(tmp_path / "same"), save_tiny_model(tmp_path / "other", seed=1)
    assert ModelEmbedding(str(same)).fingerprint == ModelEmbedding(str(model)).fingerprint
    settings = [{"model": str(other)}, {}, {"query_prefix": "q"}, {"document_prefix": "q"}, {"max_tokens": 4}]
    assert len({ModelEmbedding(**{"model": str(model), **each}).fingerprint for each in settings}) == 5


def test_a_function_is_another_when_what_its_file_imports_changes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "embeds.py").write_text("import counts\n\ndef embed(texts):\n    return counts.count(texts)\n")
    (tmp_path / "counts.py").write_text("def count(texts):\n    return [[len(text)] for text in texts]\n")
    try:
        before = FunctionEmbedding("embeds:embed").fingerprint
        assert before == FunctionEmbedding("embeds:embed").fingerprint
        (tmp_path / "counts.py").write_text("def count(texts):\n    return [[1] for text in texts]\n")
        assert FunctionEmbedding("embeds:embed").fingerprint != before
    finally:
        sys.modules.pop("embeds")
        sys.modules.pop("counts")


def test_an_index_searches_with_a_model_and_keeps_its_vectors(model, tmp_path):
    documents = write(tmp_path / "documents.jsonl")

    def index():
        return CorpusIndex(documents, embedding=str(model), cache_dir=str(tmp_path / "cache"))

    hits = index().search(f"{ROWS[1]['title']}. {ROWS[1]['text']}"[:32], mode="vector")
    assert (hits[0].doc_id, hits[0].score) == ("d2", pytest.approx(1.0, abs=1e-5))
    (kept,) = (tmp_path / "cache").iterdir()
    np.save(kept, np.load(kept)[::-1])  # backwards, to see that it is this file that is read
    assert index().search(f"{ROWS[1]['title']}. {ROWS[1]['text']}"[:32], mode="vector")[0].doc_id == "d3"


def test_a_file_of_vectors_that_is_cut_off_is_written_anew(tmp_path):
    vectors = np.arange(6, dtype=np.float32).reshape(3, 2)
    file = tmp_path / "vectors.npy"
    assert np.array_equal(cached_vectors(file, lambda: vectors, 3), vectors)
    file.write_bytes(file.read_bytes()[:-4])
    assert np.array_equal(cached_vectors(file, lambda: vectors + 1, 3), vectors + 1)
    assert np.array_equal(np.load(file), vectors + 1)
    np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert np.array_equal(cached_vectors(file, lambda: vectors, 3), vectors)
    assert [each.name for each in tmp_path.iterdir()] == ["vectors.npy"]


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("nowhere:embed", {}, "no module named"),
        ("tests.rlft.environments.embeddings:nothing", {}, "there is no function 'nothing'"),
        ("no/such/folder", {}, "does not load"),
    ],
)
def test_an_embedding_that_is_not_there_is_named(name, kwargs, message):
    with pytest.raises(EnvironmentSetupError, match=message):
        load_embedding(name, **kwargs)


def test_a_function_that_gives_too_few_rows_is_refused():
    with pytest.raises(EnvironmentSetupError, match="one row of finite numbers for each text"):
        FunctionEmbedding("tests.rlft.environments.embeddings:too_few").documents(["a", "b"])
