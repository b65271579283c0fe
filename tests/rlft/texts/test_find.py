"""What looks like a secret and what does not, and how it is hidden."""

import base64

import pytest

from rlft.texts.secrets import find_secrets, hide_secrets, redact
from tests.check_configs import ROOT, load_config

# Made up for these tests; the words PLANTED and Xq7 stand for what nobody may see.
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEPLANTED\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJub25l.eyJzdWIiOiJQTEFOVEVEIn0.UExBTlRFRA"
SECRETS = [
    {"headers": {"Authorization": "Bearer PLANTED"}},
    {"headers": {"X-API-Key": "PLANTED"}},
    {"headers": [{"name": "X-Api-Key", "value": "PLANTED"}]},
    {"headers": [["X-Api-Key", "PLANTED7Xq7a9"]]},
    {"headers": ["X-Api-Key: PLANTED"]},
    {"headers": ["Authorization: Bearer PLANTED"]},
    {"openai_key": "PLANTED7Xq7a9"},
    {"openaiApiKey": "PLANTED"},
    {"API_KEY_2": "PLANTED"},
    {"apikey": "PLANTED"},
    {"private_key": "PLANTED"},
    {"private_key_value": "PLANTED"},
    {"some_service_key": "PLANTED Xq7"},
    {"someones_key": "PLANTED7Xq7a9"},
    {"pwd": "PLANTED"},
    {"passwd": "correct horse battery staple"},
    {"db_password": "1234"},
    {"tokens": ["PLANTED7Xq7a9"]},
    {"tokens": {"alice": "PLANTED7Xq7a9"}},
    {"access_token": "PLANTED"},
    {"credentials": {"of": [{"alice": "PLANTED"}]}},
    {"client_secret": "PLANTED"},
    {"session_cookie": "sid=PLANTED7Xq7a9; path=/"},
    {"aws_secret_access_key": "PLANTED/Xq7"},
    {"dsn": "https://PLANTED7Xq7a9@sentry.invalid/1"},
    {"anything": "Server=db;Password=PLANTED;Encrypt=yes"},
    {"anything": "host=db password=PLANTED user=app"},
    {"anything": "https://api.invalid/v1?q=1&api_key=PLANTED"},
    {"anything": "https://store.invalid/blob?se=2027&sig=PLANTED%3D"},
    {"anything": "postgresql://app:PLANTED@db/facts"},
    {"anything": "postgresql://app:PLAN/TED@db/facts"},
    {"anything": "postgresql://app:PL@N:TED/@db/facts"},
    {"anything": "redis://:PLANTED@cache:6379/0"},
    {"anything": "https://hooks.slack.com/services/T0/B0/PLANTED"},
    {"anything": "Bearer PLANTED7Xq7a9"},
    {"anything": "sk-proj-PLANTED0a1b2c3d4"},
    {"anything": "hf_PLANTED0a1b2c3d4"},
    {"anything": "ghp_PLANTED0a1b2c3d4"},
    {"anything": "AKIAPLANTEDPLANTED01"},
    {"anything": PEM},
    {"anything": f"curl -H {JWT}"},
    *(
        {"anything": f"say {prefix}PLANTED0123456789abcdef"}
        for prefix in (
            "gsk_",
            "xai-",
            "pplx-",
            "tvly-",
            "r8_",
            "sk_live_",
            "rk_live_",
            "whsec_",
            "SG.",
            "dop_v1_",
            "shpat_",
            "nvapi-",
            "wandb_v1_",
            "GOCSPX-",
            "xapp-1-",
            "dckr_pat_",
            "dapi",
            "lin_api_",
            "ntn_",
            "PMAK-",
            "hvs.",
            "lsv2_pt_",
            "pcsk_",
            "sbp_",
            "sntrys_",
            "glsa_",
            "dp.pt.",
            "fw_",
            "pa-",
            "sk_",
            "fc-",
            "ak-",
            "as-",
            "rpa_",
            "sb_secret_",
            "ATBB",
            "phx_",
            "ABSK",
        )
    ),
    *({name: "PLANTED7Xq7a9"} for name in ("auth", "X-Auth", "jwt", "pat", "oauth", "session_id", "hmac", "bearer")),
    {"anything": "sk-PLANTED-key-0123456789"},
    *({name: "PLANTED"} for name in ("basic_auth", "github_pat", "pw", "db_pw")),
    *(
        {name: "PLANTED7Xq7a9"}
        for name in ("token_ci", "GITHUB_TOKEN_2", "keytab_of_x", "accesskey", "authtoken", "id_token")
    ),
    *(
        {name: "PLANTED"}
        for name in ("api_key_prod", "apiKeyProd", "pgpassword", "PGPASSWORD", "webhook_secret", "smtp_pass")
    ),
    {"auth": {"user": "me", "pass": "PLANTED7Xq7a9"}},
    {"auth": ["me", "PLANTED"]},
    {"password": 12341234},
    {"anything": '{"api_key": "PLANTED"}'},
    {"anything": '{\\"api_key\\": \\"PLANTED\\"}'},
    {"anything": 'password = "PLANTED"'},
    {"anything": "password='PLANTED'"},
    {"anything": "host: db\npassword: PLANTED\nport: 3"},
    {"anything": "tool --api-key PLANTED"},
    {"anything": ["--token=PLANTED7Xq7a9"]},
    {"anything": ["tool", "--api-key", "PLANTED"]},
    {"anything": "curl -u me:PLANTED https://example.invalid"},
    {"headers": [{"k": "X-API-Key", "v": "PLANTED"}]},
    {"anything": "https://api.telegram.org/bot1234567:PLANTED-0123456789abcdefXq7-xyz/send"},
    {"anything": "abc8Q~PLANTED7Xq7a9PLANTED7Xq7a9PLANTED7"},
    *(
        {"anything": base64.b64encode(secret.encode()).decode()}
        for secret in (PEM, "sk-proj-PLANTED0a1b2c3d4", "ghp_PLANTED0a1b2c3d4", "AKIAPLANTEDPLANTED01:PLANTED7Xq7")
    ),
    {"anything": "https://discord.com/api/webhooks/123/PLANTED"},
    {"anything": [{"deep": ("x", {"deeper": "say glpat-PLANTED0a1b2c3d4 to it"})}]},
]
HONEST = [
    {"max_tokens": 512},
    {"max_tokens": "512"},
    {"token_budget": "4096"},
    {"stop_tokens": ["<|im_end|>", "###"]},
    {"tokens": ["<eot>", "[MASK]"]},
    {"tokenizer": "Qwen/Qwen3-0.6B"},
    {"eos_token": "</s>"},
    {"token_type": "word"},
    {"key": "question"},
    {"keys": ["question", "answer"]},
    {"primary_key": "id"},
    {"foreign_key": "author_id"},
    {"answer_key": "A1B2C3D4"},
    {"sort_key": "date"},
    {"partition_key": "2024-01-01"},
    {"image_key": "image_path_v2"},
    {"public_key": "ssh-ed25519 AAAAC3Nza"},
    {"password": ""},
    {"password": None},
    {"password_length": 12},
    {"password_hint": "the usual"},
    {"secret_word_length": 5},
    {"use_secrets": True},
    {"api_key": "env:SERVICE_KEY"},
    {"headers": {"Authorization": "Bearer {env:TOKEN}"}},
    {"dsn": "postgresql://app:{env:DB_PASSWORD}@db/facts"},
    {"dsn": "sqlite:///facts.db"},
    {"connection_string": "postgresql://db.invalid/facts"},
    {"url": "http://127.0.0.1:8080/search?q=tokens&limit=5"},
    {"url": "https://example.invalid:443/@someone/page"},
    {"url": "ssh://git@example.invalid/repo.git"},
    {"email": "someone@example.invalid"},
    {"columns": ["token", "label"]},
    {"system_prompt": "Bearer bonds are bearer instruments. The secret: think. Keep a token of it."},
    {"prompt": "{question}\nkey={answer}; token={id}"},
    {"path": "/data/keys/token-list.json"},
    {"model": "sk-learn-contrib/hdbscan"},
    {"function": "hf_tools.load:rows"},
    {"commit": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
    *({"api_key": text} for text in ("EMPTY", "not-needed", "none", "sk-no-key-required", "YOUR_KEY_HERE", "<your key>",
        "your-api-key", "INSERT_TOKEN_HERE")),
    {"separator_token": "###END1###", "thought_token": "<thought>", "trigger_token": "Final-Answer:"},
    {"begin_token": "###END1###", "switch_token": "Final-Answer:"},
    {"encryption_key": "caesar", "secret": "moon", "hidden_password": "open sesame", "passage_key": "p-2024-01"},
    {"musical_keys": ["F#-minor-7b5", "C"], "cookies": "chocolate", "bearer": "John", "auth": "basic",
     "session": "2024-05-01"},
    {"prompt": "Call https://example.invalid?api_key=YOUR_KEY_HERE"},
    {"prompt": "Authorization: required fields"},
    {"prompt": "Reply as JSON.\\npassword: string\\nThe password: it has 8 letters."},
    {"schema": '{"password": "string", "key": "value", "token": "word"}'},
    {"pattern": r"token=(\w+)", "url": "https://example.invalid/?token=false"},
    {"model": "sk-learn-regression-2"},
    {"password_length": 12345678, "passwords": 3, "tokens": 40960000, "credentials": {"port": 5432}},
    {"api_key_variable": "OPENAI_API_KEY", "token_env": "HF_TOKEN", "key_column": "id_v2_main"},
    {"cache_key": "9f86d081884c7d65", "key_model": "word2vec-large"},
    {"prompt": "len(tokens), tokens=16, tokens=all, (tokens)"},
    {"auth_url": "https://auth.example.com/v2/token", "session_name": "Qwen3-0.6B-run-12"},
    {"model": "hf-internal-testing/tiny-random-gpt2", "path": "/data/sk-learn/word2vec-models-2024/a.bin"},
    {"tokens": ["A", "B"], "token": "answer"},
    *({"api_key": text} for text in ("vllm", "ollama", "lm-studio", "local", "test")),
    {"run": "api_org_2024Q3_results_v2"},
    *({"text": "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ" + "a" * more} for more in range(4)),
    {"text": base64.b64encode(b"The quick brown fox jumps over the lazy dog").decode()},
    {"model": "as-is-model-2-large-v3", "name": "pa-2024-results-run-12", "path": "sk_learn_models_run12_final"},
    {"id": "123e4567-e89b-12d3-a456-426614174000"},
]  # fmt: skip


@pytest.mark.parametrize("content", SECRETS, ids=repr)
def test_secrets_are_found_and_hidden(content):
    assert find_secrets({"environment": {"kwargs": content}})
    hidden = repr(hide_secrets(content))
    assert not {word for word in ("PLANTED", "TED", "Xq7", "1234", "horse", JWT) if word in hidden}
    assert "***" in hidden


@pytest.mark.parametrize("content", HONEST, ids=repr)
def test_honest_settings_are_not_accused_nor_changed(content):
    assert find_secrets({"environment": {"kwargs": content}}) == []
    assert hide_secrets(content) == content


def test_shipped_configs_hold_no_secret():
    configs = sorted((ROOT / "configs").glob("*.yaml")) + sorted(
        (ROOT / "tests" / "fixtures" / "configs").glob("*.yaml")
    )
    assert len(configs) > 10
    for path in configs:
        content = load_config(path).model_dump()
        assert find_secrets(content) == []
        assert hide_secrets(content) == content


def test_the_path_of_a_setting_is_told_and_never_its_text():
    content = {"environment": {"kwargs": {"headers": [{"Authorization": "Bearer PLANTED"}], "ghp_PLANTED0a1b2c3d4": 1}}}
    assert find_secrets(content) == ["environment.kwargs.headers[0].Authorization", "environment.kwargs: a key"]
    assert hide_secrets(content) == {"environment": {"kwargs": {"headers": [{"Authorization": "***"}], "***": 1}}}


def test_a_text_is_redacted_around_its_secrets():
    assert redact("at postgresql://app:p/w@db/x and ?api_key=a1 or sk-0123456789abcdef, twice") == (
        "at postgresql://***@db/x and ?api_key=*** or ***, twice"
    )
    assert redact(f"before {PEM} after") == "before *** after"
    assert redact("?api_key=sk-0123456789abcdef&q=1") == "?api_key=***&q=1"  # two forms in one place: one mask
    assert redact("nothing here: http://h:80/a@b") == "nothing here: http://h:80/a@b"


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "A",
        "Aa",
        "sk-",
        "://",
        "a://b:",
        "eyJaaaaa.",
        "-----BEGIN PRIVATE KEY-----",
        "x=",
        "Bearer a",
        "curl -u ",
        "--key ",
        'a:"',
        "a: ",
        "export ",
        " ",
        "(",
        "your-",
        "/bot1",
        "<",
        "a.",
        "//",
        "1:",
    ],
)
@pytest.mark.slow
def test_long_texts_take_no_longer_than_their_length(piece):
    # backtracking over 20,000 pieces would take minutes and meet the test's time limit
    text = piece * 20_000
    assert len(redact(text)) <= len(text)
    find_secrets({"someones_key": text + "!"})
