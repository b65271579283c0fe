"""The picture of the learning benchmark: accuracy against round, and the differences that are in question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from benchmarks.learning_intervals import COMPARISONS

# Okabe and Ito's colours, which everyone can tell apart; line styles for print.
STYLES = {
    "dapo": ("#0072B2", "-", "dapo (default)"),
    "dr_grpo": ("#009E73", "-", "dr_grpo"),
    "grpo": ("#CC79A7", "-", "grpo"),
    "trl": ("#000000", "--", "TRL, dapo"),
    "random": ("#D55E00", ":", "random rewards"),
    "group_2": ("#E69F00", "-.", "dapo, groups of 2"),
    "group_16": ("#56B4E9", "-.", "dapo, groups of 16"),
    "lag_1": ("#F0E442", "--", "dapo, lag 1"),
}
LABELS = {
    "rlft_minus_trl": "dapo minus TRL",
    "dr_grpo_minus_dapo": "dr_grpo minus dapo",
    "grpo_minus_dapo": "grpo minus dapo",
    "group_2_minus_16": "groups of 2 minus of 16",
    "lag_1_minus_dapo": "lag 1 minus lag 0",
    "random_gain": "random rewards:\nafter minus before",
}
LIMITS = {"rlft_minus_trl": -2, "random_gain": 2}  # points: the lower bound is to be above, the upper at most this


def draw_picture(summary: dict[str, Any], folder: Path) -> list[Path]:
    """Write learning.png and learning.svg to `folder`."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), width_ratios=[3, 2], layout="constrained")
    _draw_curves(left, summary)
    _draw_differences(right, summary)
    files = [folder / "learning.png", folder / "learning.svg"]
    for file in files:
        figure.savefig(file, dpi=150)
    plt.close(figure)
    return files


def _draw_curves(axes: Axes, summary: dict[str, Any]) -> None:
    for arm, report in summary["arms"].items():
        color, line, label = STYLES[arm]
        rounds = list(report["curve"])
        points = list(report["curve"].values())
        low, high = ([100 * point[side] for point in points] for side in ("low", "high"))
        axes.plot(rounds, [100 * point["mean"] for point in points], line, color=color, label=label, linewidth=2)
        axes.fill_between(rounds, low, high, color=color, alpha=0.10, linewidth=0)
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("greedy accuracy on unseen tasks (%)")
    axes.set_title(f"Mean of {len(summary['seeds'])} seeds; bands: 95 % over seeds and tasks", fontsize="medium")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", fontsize="small", frameon=False)


def _draw_differences(axes: Axes, summary: dict[str, Any]) -> None:
    names = [name for name in (*COMPARISONS, "random_gain") if name in summary]
    for height, name in enumerate(names):
        report = {key: 100 * value for key, value in summary[name].items() if key != "seeds"}
        axes.plot([report["low"], report["high"]], [height, height], color="#0072B2", linewidth=2)
        axes.plot(
            [report["low_tasks"], report["high_tasks"]], [height, height], color="#0072B2", linewidth=6, alpha=0.3
        )
        axes.plot(report["mean"], height, "o", color="#0072B2")
        axes.plot([100 * seed for seed in summary[name]["seeds"]], [height] * len(summary["seeds"]), "|", color="black")
        if name in LIMITS:
            axes.plot([LIMITS[name]] * 2, [height - 0.3, height + 0.3], color="#D55E00", linewidth=2)
    axes.axvline(0, color="grey", linewidth=1)
    axes.set_yticks(range(len(names)), [LABELS[name] for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel("points of accuracy after training")
    axes.set_title(
        "Paired differences: 95 % over seeds and tasks (thin),\ntasks (thick); bars: seeds, limits in orange",
        fontsize="medium",
    )
    axes.grid(axis="x", alpha=0.3)
