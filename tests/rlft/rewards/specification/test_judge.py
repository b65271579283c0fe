"""What a judge's answers depend on."""

from rlft.rewards.specification.grader import JudgeSettings

AWAY = {"endpoint": "http://127.0.0.1:1/v1", "model": "m"}


def test_what_answers_depend_on_is_not_how_patiently_it_is_asked():
    away = JudgeSettings.model_validate({**AWAY, "attempts": 9, "timeout_seconds": 1.0})
    assert away.scoring() == {**AWAY, "version": "", "votes": 1, "max_tokens": 512}
