"""The power and the false alarms of the reward audit: `python -m tests.benchmarks.audit --json`.

- `cases`: what a case is
- `data`: the tasks of the authors of the attacks
- `planted`, `honest`: their broken rewards and honest ones
- `unseen`: where it is there, cases by someone who has not read the attacks; nobody tunes them
- `measure`: what the audit says of all cases, and the bounds that so few cases allow
- `__main__`: prints it
"""
