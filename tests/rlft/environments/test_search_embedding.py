import numpy as np
import pytest
import torch
from transformers import BertModel

from rlft.environments.search_embedding import ModelEmbedding
from rlft.environments.search_index import CorpusIndex
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


def test_an_index_searches_with_a_model_and_keeps_its_vectors(model, tmp_path):
    documents = write(tmp_path / "documents.jsonl")

    def index():
        return CorpusIndex(documents, embedding=str(model), cache_dir=str(tmp_path / "cache"))

    hits = index().search(f"{ROWS[1]['title']}. {ROWS[1]['text']}"[:32], mode="vector")
    assert (hits[0].doc_id, hits[0].score) == ("d2", pytest.approx(1.0, abs=1e-5))
    (kept,) = (tmp_path / "cache").iterdir()
    np.save(kept, np.load(kept)[::-1])  # backwards, to see that it is this file that is read
    assert index().search(f"{ROWS[1]['title']}. {ROWS[1]['text']}"[:32], mode="vector")[0].doc_id == "d3"
