"""The licence that a base model's own card names."""

import pytest

from rlft.reporting.model_card import Licence, licence_of


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        ("---\nlicense: apache-2.0\n---\n# A", Licence("apache-2.0")),
        ("---\nlicense: other\nlicense_name: own\nlicense_link: LICENSE\n---\n", Licence("other", "own", "LICENSE")),
        ("---\nlicense: [mit, bsd]\n---\n", Licence("mit")),
        ("---\nlicense: {a: 1}\n---\n", None),
        ("---\ntags: [a]\n---\n", None),
        ("---\nlicense: !!python/object:os.system x\n---\n", None),
        ("---\n: : [\n---\n", None),
        ("# license: mit", None),
        ("", None),
    ],
)
def test_what_the_front_matter_names(tmp_path, card, expected):
    (tmp_path / "README.md").write_text(card)
    assert licence_of(str(tmp_path), tmp_path) == expected


def test_no_card_no_licence(tmp_path):
    assert licence_of(str(tmp_path), tmp_path) is None
    assert licence_of(None, None) is None


def test_a_hub_that_does_not_answer_leaves_it_unknown(monkeypatch):
    def away(*_, **__):
        raise ConnectionError("away")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", away)
    assert licence_of("no/model", None) is None
