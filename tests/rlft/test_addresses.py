"""Addresses of servers and names that end in paths, as a config takes them."""

import pytest
from pydantic import ValidationError

from rlft.config import EngineSettings, EnvironmentConfig, PromotionConfig, ServerSettings, TrackingConfig
from rlft.config.addresses import check_address, refuse_metadata
from rlft.errors import ConfigError

METADATA = [
    "169.254.169.254", "169.254.170.2", "169.254.0.1", "2852039166", "0xA9FEA9FE", "0251.0376.0251.0376",
    "0xa9.0376.43518", "169.254.43518", "169.254.169.254.", "\uff11\uff16\uff19.254.169.254",
    "169\u3002254\u3002169\u3002254",
    "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::169.254.169.254]", "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::1]", "[fe80::1]", "[fe80::1%25eth0]", "[fd00:ec2::254]", "[FD00:EC2:0::254]",
    "metadata.google.internal", "METADATA.google.internal.", "metadata", "instance-data.ec2.internal",
    "100.100.100.200", "[::ffff:0:169.254.169.254]", "[64:ff9b:1::a9fe:a9fe]", "metadata.azure.internal",
    "metadata.tencentyun.com",
]  # fmt: skip
OTHERS = [
    "127.0.0.1", "localhost", "10.0.0.7", "192.168.1.1", "169.253.255.255", "169.255.0.1", "[::1]", "[fd00::254]",
    "gpu-7.cluster.internal", "metadata.example.org", "8.8.8.8",
]  # fmt: skip


@pytest.mark.parametrize("host", METADATA)
def test_addresses_that_hand_out_a_machines_credentials_are_refused(host):
    with pytest.raises(ValidationError, match=r"server\.addresses: .*(metadata address|is no address)"):
        EngineSettings.model_validate({"server": {"addresses": [f"http://{host}:8000"]}})
    with pytest.raises(ValueError, match="metadata address"):
        refuse_metadata(f"https://{host}:80/latest/meta-data")
    with pytest.raises(ValidationError, match=r"services\[0\].url: .* hands out a machine's own credentials"):
        EnvironmentConfig(name="a:B", kwargs={"services": [{"url": f"ask http://{host}/latest, then go"}]})


@pytest.mark.parametrize("host", OTHERS)
def test_other_addresses_are_taken(host):
    assert check_address(f"http://{host}:8000/") == f"http://{host}:8000"
    kwargs = {"url": f"http://{host}/latest"}
    assert EnvironmentConfig(name="a:B", kwargs=kwargs).kwargs == kwargs


@pytest.mark.parametrize(
    "url", ["http://u@169.254.169.254/", "http:\\\\169.254.169.254/x", "HTTP://%3169.254.169.254/"]
)
def test_an_address_in_a_text_is_found_in_its_odd_forms(url):
    with pytest.raises(ValidationError, match="metadata address"):
        EnvironmentConfig(name="a:B", kwargs={"url": url})


def test_an_address_in_a_variable_is_read_and_checked_where_it_is_used(monkeypatch):
    server = EngineSettings.model_validate({"server": {"addresses": ["env:RLFT_TEST_ADDRESS"]}}).server
    monkeypatch.setenv("RLFT_TEST_ADDRESS", "http://gpu-7:8000/")
    assert server.read_addresses() == ["http://gpu-7:8000"]
    assert server.addresses == ["env:RLFT_TEST_ADDRESS"]
    for wrong in ("http://169.254.169.254", "http://user:hidden@h", "nonsense", ""):
        monkeypatch.setenv("RLFT_TEST_ADDRESS", wrong)
        with pytest.raises(ConfigError) as error:
            server.read_addresses()
        assert "hidden" not in str(error.value)
    assert ServerSettings().read_addresses() == []


METADATA_KWARGS = [
    {"host": "169.254.169.254"}, {"host": "169.254.169.254:80"}, {"host": "fd00:ec2::254"},
    {"url": "169.254.169.254/x"},
    {"url": "//169.254.169.254/"}, {"url": "ws://169.254.169.254/"}, {"url": "grpc://169.254.169.254:1"},
    {"deep": [{"host": "[::ffff:a9fe:a9fe]:80"}]}, {"by": {"http://169.254.169.254/": 1}},
    {"by": {"169.254.169.254": 1}},
    {"url": "http://example.invalid\\@169.254.169.254/"}, {"url": "http://169.254.169.254\\@example.invalid/"},
    {"url": "http://[@169.254.169.254/"},  # which only httpx reads
]  # fmt: skip
HONEST_KWARGS = [
    {"column": "metadata", "file": "data/metadata.json", "version": "1.2.3", "ratio": "16:9", "at": "12:30:00"},
    {"pattern": r"http://\w+\.com/\S+", "comment": "// not an address", "path": r"\\share\folder", "half": "0.5"},
    {"say": "Explain what 169.254.169.254 is for.", "by": {1: "x", "a.b": "::"}, "host": "api.example.org:443"},
]


@pytest.mark.parametrize("kwargs", METADATA_KWARGS, ids=repr)
def test_a_metadata_address_is_refused_however_it_is_given(kwargs):
    with pytest.raises(ValidationError, match="metadata address"):
        EnvironmentConfig(name="a:B", kwargs=kwargs)


@pytest.mark.parametrize("kwargs", HONEST_KWARGS, ids=repr)
def test_texts_that_are_no_metadata_address_are_taken(kwargs):
    assert EnvironmentConfig(name="a:B", kwargs=kwargs).kwargs == kwargs


def test_an_address_with_a_backslash_is_refused():
    with pytest.raises(ValidationError, match="backslash"):
        EnvironmentConfig(name="a:B", kwargs={"url": "http://example.invalid\\@example.org/"})
    with pytest.raises(ValueError, match="no address"):
        check_address("http://example.invalid\\x")


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
