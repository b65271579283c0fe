"""What is watched while a run trains: a question to its rounds so far, with a sentence and an action.

A monitor is a pure function of what is stored of the rounds. Many of them are checks of `rlft.diagnosis`, asked after
each round instead of once: so at a level that all looks share.

- `alarm`: what a monitor has seen
- `overoptimization`: the reward rises, and what counts does not, on validation and on the attempts that are trained on
- `signs`: parts that move apart, repetition, tool calls, known attacks
- `watch`: all monitors by name, and the question to them after a round

What each can see and what it cannot, with figures, stands in docs/guide/monitors.md.
"""

from rlft.monitors.alarm import Alarm
from rlft.monitors.watch import MONITORS, of_validation, watch

__all__ = ["MONITORS", "Alarm", "of_validation", "watch"]
