"""Addresses of servers and names that end in paths, as a config takes them."""

import pytest
from pydantic import ValidationError

from rlft.config import EngineSettings, PromotionConfig, ServerSettings, TrackingConfig
from rlft.config.section import check_address
from rlft.errors import ConfigError


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "gpu-7.cluster.internal"])
def test_addresses_of_servers_are_taken(host):
    assert check_address(f"http://{host}:8000/") == f"http://{host}:8000"
    assert check_address(f"https://{host}/v1", path="/v1") == f"https://{host}/v1"


WRONG = ["", "gpu-7", "ftp://h", "http://", "http://h:0", "http://h:x", "http://[::1", "http://h/v1", "http://h?a=b",
         "http://h\\x", "http://h h", "http://h\n", "http://user:hidden@h"]  # fmt: skip


@pytest.mark.parametrize("address", WRONG, ids=repr)
def test_what_is_no_address_of_a_server_is_refused(address):
    with pytest.raises(ValueError, match="no address") as wrong:
        check_address(address)
    assert "hidden" not in str(wrong.value)
    with pytest.raises(ValidationError):
        EngineSettings.model_validate({"server": {"addresses": [address]}})


def test_an_address_in_a_variable_is_read_and_checked_where_it_is_used(monkeypatch):
    server = EngineSettings.model_validate({"server": {"addresses": ["env:RLFT_TEST_ADDRESS"]}}).server
    monkeypatch.setenv("RLFT_TEST_ADDRESS", "http://gpu-7:8000/")
    assert server.read_addresses() == ["http://gpu-7:8000"]
    assert server.addresses == ["env:RLFT_TEST_ADDRESS"]
    for wrong in ("http://user:hidden@h", "nonsense", ""):
        monkeypatch.setenv("RLFT_TEST_ADDRESS", wrong)
        with pytest.raises(ConfigError) as error:
            server.read_addresses()
        assert "hidden" not in str(error.value)
    assert ServerSettings().read_addresses() == []


NAMES = ["..", "a/../b", "../up", "/etc", "a//b", "a\\b", "", "x" * 201, "a\nb", "a\x1b[31m", "a\u202eb", "a\u200bb",
         "-rf", " a", "a ", "a/ b", "a:b", "a\x00", "a\u2028b"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_names_that_lead_elsewhere_are_refused(name):
    with pytest.raises(ValidationError):
        TrackingConfig(experiment=name)
    with pytest.raises(ValidationError):
        PromotionConfig(name=name)


@pytest.mark.parametrize("name", ["calculator", "a..b", "größe 2.0", "_x-1", "模型"])
def test_names_that_stay_where_they_are(name):
    assert TrackingConfig(experiment=name).experiment == PromotionConfig(name=name).name == name


def test_only_an_experiment_may_have_folders():
    assert TrackingConfig(experiment="team/first try").experiment == "team/first try"
    with pytest.raises(ValidationError, match="holds /"):
        PromotionConfig(name="team/model")
