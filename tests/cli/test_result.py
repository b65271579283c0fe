import io
import json

import pytest
import typer

from cli.result import finish, show_summary
from mlops.summary.file import keep_summary
from mlops.summary.summary import (
    Change,
    Contamination,
    ControlCost,
    Difference,
    Promotion,
    Seconds,
    SeveralAttempts,
    Summary,
    TextChange,
)
from rlft.reporting.terminal import Terminal


def shown(status="not_improved", **changes):
    summary = Summary(status=status, seconds=Seconds(total=3.0), **changes)
    console = Terminal(file=io.StringIO(), width=120)
    show_summary(summary, console, where=["Summary: here"])
    return console.file.getvalue()


def minus(low, mean=0.02):
    return Difference(metric="accuracy", before=0.66, after=0.68, mean=mean, ci_low=low, ci_high=0.06, tasks=500)


@pytest.mark.parametrize(
    ("low", "errors", "said"), [(-0.02, None, True), (0.0, None, True), (0.01, None, False), (0.01, -0.1, True)]
)
def test_the_first_sentence_says_that_a_control_is_not_shown_to_be_beaten(low, errors, said):
    change = minus(low).model_copy(update={"ci_low_errors": errors})
    arms = {"controls": {"sft": {"accuracy": 0.66}}, "difference_controls": {"sft": change}, "difference": minus(0.01)}
    text = shown(status="improved", **arms)
    sentence = "SFT on your gold answers reaches 66.0 %, at no more cost: the trained model is not shown to be better."
    assert (sentence in text.splitlines()[1]) == said
    assert f"Trained minus SFT on your gold answers: +2.0 points, 95 % interval {100 * change.low:+.1f} to +6.0" in text
    cost = ControlCost(demonstrations=2000, flops=3e12, budget=4e12, seconds=9)
    text = " ".join(shown(status="improved", control_costs={"sft": cost}, **arms).replace("│", "").split())
    dear = "SFT on your 2,000 gold answers reaches 66.0 %, for 75 % of the rounds' computation: the trained model"
    assert (dear in text) == said


def test_what_stands_beside_the_result_is_told():
    found = {
        "test": Contamination(tasks=9, exact=1, overlapping=0, sentence="Of the 9 tasks one is not new."),
        "gate": Contamination(tasks=9, exact=0, overlapping=0, sentence="None of them is."),
    }
    change = TextChange(before=1, after=1.5, mean=0.5, ci_low=0.4, ci_high=0.6, verdict="cost")
    said = ["Training cost much."]
    text = shown(contamination=found, forgetting={"code": change}, forgetting_sentences=said)
    assert "Of the 9 tasks one is not new." in text
    assert "None of them is." not in text
    assert "Training cost much." in text
    assert "Training cost much." not in shown(forgetting_sentences=said)  # of a policy from scratch there is no need


def test_a_run_that_could_not_be_registered_says_why_and_how_to_go_on(tmp_path, capsys):
    reasons = ["not registered: the tracker did not answer", "`rlft resume a` registers it"]
    promotion = Promotion(name="tiny", reasons=reasons)
    for status, code in (("improved", 5), ("not_improved", 5), ("failed", 1), ("too_hard", 3)):
        keep_summary(tmp_path, Summary(status=status, pipeline_run_id="id", promotion=promotion))
        with pytest.raises(typer.Exit) as ended:
            finish(tmp_path, "id", None, None)
        assert ended.value.exit_code == code
        said = capsys.readouterr().out
        assert (reasons[0] in said, reasons[1] in said) == (code == 5, code == 5)
    assert Summary(status="improved", promotion=Promotion(version="3")).exit_code == 0


def difference_of(metric, before, after, low):
    mean = after - before
    return Difference(metric=metric, before=before, after=after, mean=mean, ci_low=low, ci_high=mean + 0.1, tasks=9)


def test_the_first_sentence_names_what_would_have_done():
    text = shown(
        difference=difference_of("reward", -1.1, -0.02, 0.9),
        difference_controls={
            "constant": difference_of("reward", 0.0, -0.02, -0.05),
            "sft": difference_of("reward", -0.9, -0.02, 0.7),
        },
        controls={"constant": {"reward": 0.0}},
        constant_answer="?",
    )
    said = text.index("Saying '?' to every task reaches a reward of 0.000, and the trained model is not shown to be")
    assert said < text.index("not measurably better than what it started from")
    assert "SFT on your gold answers reaches" not in text  # the trained model is better than SFT
    assert "best constant answer" in text


def test_what_monitors_have_warned_of_stands_first_and_notes_do_not():
    def alarm(monitor, action, what):
        return {"monitor": monitor, "action": action, "rounds": 4, "what": what, "remedy": "Read the attempts."}

    text = shown(
        difference=difference_of("reward", -1.1, 0.0, 0.9),
        stopped="monitor overoptimization: The reward rose.",
        alarms=[
            alarm("length_drift", "note", "Longer."),
            alarm("repetition", "warn", "It repeats."),
            alarm("overoptimization", "stop", "The reward rose."),
        ],
    )
    first = "Monitor overoptimization, after 4 rounds, which ends training: The reward rose. Read the attempts."
    assert text.index(first) < text.index("Monitor repetition, after 4 rounds: It repeats.")
    assert text.index("It repeats.") < text.index("The trained model is")
    assert "docs/guide/monitors.md#repetition" in text
    assert "Longer." not in text
    assert "training ended early (monitor overoptimization)" in text


def test_the_first_sentence_says_that_answers_have_collapsed():
    collapsed = "its answers have collapsed: one answer makes up 95% of its attempts on test"
    text = shown(status="improved", difference=difference_of("reward", -1.1, 0.0, 0.9), collapsed=collapsed)
    assert text.index("its answers have collapsed") < text.index("The trained model is better than what it started")
    assert "collapsed" not in shown(difference=difference_of("reward", -1.1, 0.0, 0.9))


def test_a_control_that_is_better_is_said_to_be_better():
    change = difference_of("accuracy", 0.76, 0.65, -0.16)
    arms = {"status": "improved", "difference": difference_of("accuracy", 0.03, 0.65, 0.5)}
    text = " ".join(shown(difference_controls={"rejection_sampling": change}, **arms).replace("│", "").split())
    assert "Rejection sampling reaches 76.0 %, at no more cost: it does better than the trained model." in text
    # Also where the trained model's errors, counted as solved, could close the gap.
    for update in ({"ci_high": 0.0}, {"errors": 9, "ci_high_errors": 0.01}):
        unsure = change.model_copy(update=update)
        text = " ".join(shown(difference_controls={"rejection_sampling": unsure}, **arms).replace("│", "").split())
        assert "the trained model is not shown to be better" in text


def test_errors_count_against_the_trained_model_beside_a_control_too():
    sure = difference_of("accuracy", 0.6, 0.66, 0.01)
    unsure = sure.model_copy(update={"errors": 9, "ci_low_errors": -0.02})
    assert "the trained model is not shown" not in shown(difference_controls={"sft": sure, "constant": None})
    text = shown(difference_controls={"sft": unsure})
    assert "SFT on your gold answers reaches 60.0 % of the attempts that have a score, at no more cost: the" in text


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        ("widened", "in 3 attempts the trained model solves more than the start does in 24"),
        ("ahead", "the trained model solves more in 3 attempts, but the start may solve as much in 24"),
        ("sharpened", "training made the first attempt better, and is not seen to solve more in 3"),
        ("lost", "in 3 attempts the trained model solves less than the start does"),
        ("open", "neither change is more than chance"),
    ],
)
def test_a_line_says_what_training_did_to_several_attempts(effect, said):
    change = Change(mean=0.1, ci_low=0.02, ci_high=0.18)
    curves = SeveralAttempts(
        start=[0.1, 0.2, 0.3],
        trained=[0.3, 0.35, 0.4],
        difference_at_1=change,
        difference_at_n=change,
        tasks=40,
        errors=0,
        effect=effect,
    )

    def said_of(curves):
        return " ".join(shown(pass_at_k=curves).replace("│", "").split())

    text = said_of(curves)
    assert (
        "One attempt at 40 test tasks, sampled as in training, solves 10.0 % -> 30.0 %, and at least one of 3 does "
        "30.0 % -> 40.0 %" in text
    )
    assert "(+10.0 points, 95 % interval +2.0 to +18.0)" in text
    assert said in text
    assert "2 attempts have no score" in said_of(curves.model_copy(update={"errors": 2}))


def test_a_control_without_a_score_is_named_with_the_command_that_attempts_it_again():
    reason = "none of its attempts on `test` has a score; `rlft run --no-cache` makes them again"
    text = shown(
        difference=minus(0.01), difference_controls={"model": None}, controls_left_out={"model": reason}
    ).replace("│", "")
    assert f"No control model: {reason}." in " ".join(text.split())


def test_as_json_prints_what_the_file_gets_and_nothing_else(tmp_path, capsys):
    folder, target = tmp_path / "own", tmp_path / "summary.json"
    keep_summary(folder, Summary(status="too_hard", pipeline_run_id="id"))
    with pytest.raises(typer.Exit) as ended:
        finish(folder, "id", target, None, as_json=True)
    assert ended.value.exit_code == 3
    said = json.loads(capsys.readouterr().out)
    assert said == json.loads(target.read_text())
    assert (said["status"], said["pipeline_run_id"]) == ("too_hard", "id")
