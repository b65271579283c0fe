import pytest

from rlft.errors import ConfigError
from rlft.evaluation.model_names import check_model_folder


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (["config.json"], None),
        (["policy.json"], None),
        ([], "the folder holds no model: config.json is missing"),
        (["adapter_config.json"], "the folder holds no model: config.json is missing"),
        (["adapter_config.json", "config.json"], None),
    ],
)
def test_what_a_folder_lacks_to_be_a_model_is_told(tmp_path, monkeypatch, files, says):
    for name in files:
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    for written in (str(tmp_path), "."):
        if says is None:
            check_model_folder(written)
            continue
        with pytest.raises(ConfigError, match=says):
            check_model_folder(written)


def test_a_path_has_to_be_a_folder_and_another_name_may_be_one_of_the_hub(tmp_path):
    check_model_folder("gpt2")
    check_model_folder("owner/name")
    (tmp_path / "file").touch()
    for written in ("./absent", str(tmp_path / "file"), "~nobody-of-this-name/model"):
        with pytest.raises(ConfigError, match="there is no such folder"):
            check_model_folder(written)
