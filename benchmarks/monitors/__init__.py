"""Whether the monitors of `evaluation.monitors` stay silent in healthy runs, and speak in runs whose reward is broken.

- `rewards`: environments with an honest reward, and with six broken ones, three of them held out
- `runs`: trains a run in one process, and asks the monitors after each round
- `__main__`: counts alarms, with exact bounds (`python -m benchmarks.monitors --json`)
"""
