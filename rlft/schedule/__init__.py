"""Schedules: when a run is due, and whether there is a reason for it.

- `settings`: the settings of a schedule's file, and what they change in the config that it runs
- `times`: when it is due
- `reasons`: whether there is a reason to run
"""
