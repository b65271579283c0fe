"""What a person sees in MLflow's own pages, read in a browser: the result first, curves, attempts, a version."""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import httpx
import pytest
import yaml
from playwright.sync_api import Page, sync_playwright

from tests.e2e.conftest import TINY, Home, free_port
from tests.e2e.test_evaluate import SUITE
from tests.needs import need_chromium

pytestmark = [pytest.mark.slow, pytest.mark.long]
RUNS = """
runs = mlflow_client.search_runs([mlflow_client.get_experiment_by_name("tiny").experiment_id])
print(json.dumps([[run.info.experiment_id, run.info.run_id, run.info.run_name] for run in runs]))
"""
_MILLISECONDS = 60_000


@dataclass(frozen=True)
class Browser:
    """A page of the browser, with MLflow at an address and the experiment that is looked at."""

    page: Page
    address: str
    experiment: str
    runs: dict[str, str]

    def see(self, place: str, *texts: str) -> str:
        """The text of a page of MLflow's, once all of these stand in it."""
        self.page.goto("about:blank")  # or only what is behind the # changes, and the page stays as it is
        self.page.goto(f"{self.address}/#/{place}")
        for text in texts:
            self.page.get_by_text(text).first.wait_for(timeout=_MILLISECONDS)
        return self.page.inner_text("body")


@pytest.fixture(scope="module")
def home(finished, tmp_path_factory) -> Home:
    """A home with two finished runs and an evaluation."""
    first, _ = finished
    home = first.copy(tmp_path_factory.mktemp("seen"))
    again = home.rlft("run", str(TINY), "--set", "seed=1", "--name", "other-seed")
    assert again.code == 0, again.output
    (home.folder / "suite.yaml").write_text(SUITE)
    evaluated = home.rlft("evaluate", "other-seed:start", "other-seed:best", "--suite", "suite.yaml")
    assert evaluated.code == 0, evaluated.output
    return home


@pytest.fixture(scope="module")
def browser(home) -> Iterator[Browser]:
    program = need_chromium()
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-P", "-m", "cli", "ui", "--port", str(port)]
    found = home.query(RUNS)
    with subprocess.Popen(
        command, cwd=home.folder, env=home.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            wait_for(address, server)
            with (
                sync_playwright() as driver,
                driver.chromium.launch(executable_path=program, args=["--no-sandbox"]) as own,
            ):
                page = own.new_page(viewport={"width": 1300, "height": 900})
                yield Browser(page, address, found[0][0], {name: run for _, run, name in found})
        finally:
            server.terminate()


def wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while True:
        assert server.poll() is None
        assert time.monotonic() < deadline
        try:
            if httpx.get(f"{address}/health", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)


def test_the_list_has_the_runs_by_their_names(browser):
    text = browser.see(f"experiments/{browser.experiment}/runs", "other-seed")
    assert "The result of each comes first" in text


def test_the_table_of_versions_has_few_tags_for_each(browser):
    text = browser.see("models/tiny", "rlft.score.accuracy", "Description")
    assert text.count("rlft.") == 3 * 2  # score, gate and id of the records of each of two versions
    assert "{" not in text  # no record


def test_the_page_of_a_run_says_who_ran_what_and_what_came_of_it(browser):
    run = browser.runs["other-seed"]
    text = browser.see(f"experiments/{browser.experiment}/runs/{run}", "Description", "Model metrics (")
    assert f"Created by\n{getpass.getuser()}" in text
    assert "on 12 test tasks" in text
    assert "eval/base" not in text  # among the files
    browser.page.get_by_text("Show more").first.click()
    link = browser.page.get_by_role("link", name="report", exact=True)
    assert link.get_attribute("href").endswith(f"/runs/{run}/artifacts/report.html")


def test_the_curves_begin_with_the_result_and_are_drawn(browser):
    run = browser.runs["other-seed"]
    text = browser.see(f"experiments/{browser.experiment}/runs/{run}/model-metrics", "gain_high")
    assert text.partition("Auto-refresh")[2].split()[0] == "0_result"
    browser.page.locator(".js-plotly-plot").first.wait_for(timeout=_MILLISECONDS)


def test_runs_side_by_side_have_the_result_before_all_other_metrics(browser):
    runs, experiments = (quote(json.dumps(each)) for each in (list(browser.runs.values()), [browser.experiment]))
    text = browser.see(f"compare-runs?runs={runs}&experiments={experiments}", "0_result/gain_high")
    rows = text[text.index("Run details") :].partition("\nMetrics\n")[2].splitlines()
    first = [row for row in rows if row.startswith("0_") or row[:1].isalpha()]
    assert [row.partition("/")[0] for row in first[:10]] == ["Show diff only", *["0_result"] * 9]
    assert all(name in text for name in browser.runs)


def test_attempts_are_conversations_with_their_scores(browser):
    text = browser.see(f"experiments/{browser.experiment}/runs/{browser.runs['other-seed']}/traces", "Assessments")
    assert "correct" in text
    assert "reward" in text


def test_the_report_is_shown_as_a_page(browser):
    browser.see(
        f"experiments/{browser.experiment}/runs/{browser.runs['other-seed']}/artifacts/report.html", "report.html"
    )
    frame = browser.page.frame_locator("iframe").first
    frame.get_by_role("heading", level=1).wait_for(timeout=_MILLISECONDS)
    assert "other-seed" in frame.locator("body").inner_text()


def test_a_version_says_what_it_is_worth_and_leads_to_its_run(browser):
    text = browser.see("models/tiny/versions/2", "Made by the run")
    assert "The trained model is" in text
    tags = text.partition("\nTags\n")[2]
    assert "rlft.score.accuracy" in tags
    assert "hash" not in tags  # nor any other record that a person does not need
    link = browser.page.get_by_role("link", name="other-seed").last
    assert link.get_attribute("href").endswith(browser.runs["other-seed"])


def test_an_evaluation_is_in_the_table_of_evaluations_with_its_scores(browser, home):
    [[experiment, run]] = home.query("""
found = mlflow_client.search_runs([mlflow_client.get_experiment_by_name("quick").experiment_id])
own = [run for run in found if run.data.tags.get("mlflow.runType") == "genai_evaluate"]
found = [run.info for run in own if run.info.run_name == "two other-seed-best"]
print(json.dumps([[run.experiment_id, run.run_id] for run in found]))
""")
    table = browser.see(f"experiments/{experiment}/evaluation-runs", "eval/test/accuracy_low", "two other-seed-best")
    assert "two other-seed-start" in table
    attempts = browser.see(f"experiments/{experiment}/runs/{run}/traces", "Assessments")
    assert "correct" in attempts


def test_what_a_person_says_in_the_review_queue_becomes_a_case_of_the_reward(browser, home):
    asked = home.rlft("review", "other-seed", "--highest", "3", "--random", "0", "--json")
    assert asked.code == 0, asked.output
    queue = json.loads(asked.output[asked.output.index("{") :])
    assert (queue["items"], queue["chosen"]) == (3, {"highest": 3})
    browser.see(f"experiments/{browser.experiment}/review-queue", queue["queue"])
    browser.page.get_by_text(queue["queue"]).first.click()
    browser.page.get_by_text("Start review").first.click()
    number = browser.page.locator("input[type=number]")
    number.first.wait_for(timeout=_MILLISECONDS)
    number.first.fill("0.25")
    browser.page.get_by_placeholder("Why, in a sentence.").first.fill("It is only a guess.")
    browser.page.get_by_text("Submit", exact=True).first.click()
    browser.page.get_by_text("1 of 3 reviewed").first.wait_for(timeout=_MILLISECONDS)
    collected = home.rlft("review", "collect", "other-seed", "--output", "said")
    assert collected.code == 0, collected.output
    assert "People gave 1 opinion, and 2 attempts are waiting." in collected.output
    [case] = yaml.safe_load((home.folder / "said" / "cases.yaml").read_text())["cases"]
    assert case["reason"].endswith("It is only a guess.")
    assert (case["at_least"], case["at_most"]) == (0.15, 0.35)
    assert not (home.folder / "said" / "golds.jsonl").exists()  # nobody has said what would be right
