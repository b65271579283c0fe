"""The section `monitors` of a config: what is watched while a run trains."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rlft.config.names import Text
from rlft.config.section import Section

Action = Literal["off", "note", "warn", "stop"]


class MonitorsConfig(Section):
    """What is watched after each round, and what is done when it is seen ([monitors](monitors.md)).

    `off` does not look, `note` writes it into the log and the summary, `warn` also puts it before the result, and
    `stop` ends training: the best validated policy is evaluated, decided on and registered, and not promoted. Each is
    raised without cause in at most 1 % of runs whose rewards do not change.
    """

    honest: Text | None = Field(
        default=None,
        description="Part of the reward that says what counts, best one of weight 0 (a metric), such as `right`. The "
        "best round is then the one that is best by it. null means the share of solved attempts, which a loophole "
        "may solve too: then no monitor ends training by it.",
    )
    overoptimization: Action = Field(
        default="stop",
        description="The reward rises on validation, and `honest` falls or stays (Gao et al. 2023). Without `honest` "
        "`stop` means `warn`.",
    )
    reward_gap: Action = Field(
        default="warn", description="The same on the attempts that are trained on, after each round."
    )
    unseen_tasks: Action = Field(
        default="warn", description="More train tasks are solved, and validation does not share it: they are learnt."
    )
    part_divergence: Action = Field(default="note", description="One part of the reward rises, and another one falls.")
    length_drift: Action = Field(
        default="note", description="Attempts become twice as long, or half, and validation has not risen."
    )
    repetition: Action = Field(
        default="warn", description="Attempts repeat their own words more and more, and validation has not risen."
    )
    entropy_collapse: Action = Field(
        default="warn", description="The policy hardly tries anything else any more, and validation has not risen."
    )
    tool_spam: Action = Field(
        default="warn", description="Attempts call tools twice as often, and validation has not risen."
    )
    identical_completions: Action = Field(
        default="warn", description="Nearly all attempts are the same, whatever the task, where tasks need several."
    )
    known_attacks: Action = Field(
        default="warn",
        description="A tenth of the attempts are an attack that the audit knows ([audit](audit.md)), and are paid.",
    )

    unscored_attempts: Action = Field(
        default="warn",
        description="The reward fails on a twentieth of the attempts, which leave their groups without a score.",
    )

    def actions(self) -> dict[str, Action]:
        """Return {monitor: its action}. Without `honest` nothing stops a run by what a loophole solves, too."""
        found = {name: getattr(self, name) for name in type(self).model_fields if name != "honest"}
        if self.honest is None and found["overoptimization"] == "stop":
            found["overoptimization"] = "warn"
        return found
