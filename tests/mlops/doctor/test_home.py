"""What was cut short in a home is told until it is settled."""

from mlops.doctor import home as checked
from mlops.doctor.finding import Finding
from mlops.doctor.home import _ends
from mlops.home.folder import Home


def test_what_ran_when_a_process_ended_is_told_until_the_run_is_resumed(tmp_path, monkeypatch):
    assert list(_ends(Home(tmp_path))) == []
    monkeypatch.setattr(checked, "ends_left", lambda home: [("a-1", "my run", "the process ended while tool look ran")])
    [finding] = _ends(Home(tmp_path))
    assert finding == Finding("warning", "my run: the process ended while tool look ran", "rlft resume 'my run'")
