"""Schedules: when a run is due, and whether there is a reason for it.

- `settings`: the settings of a schedule's file
- `file`: reads one, and says what it changes in the config that it runs
- `times`: when it is due
- `reasons`: whether there is a reason to run
"""
