"""The power and the false alarms of the reward audit: `python -m benchmarks.audit --json`.

- `cases`: what a case is, and how its tasks are made
- `data`: the tasks of the authors of the attacks
- `planted`, `honest`: their broken rewards and honest ones
- `unseen`: cases that were written without knowledge of the attacks, and are never changed
- `families`: the environments and tasks of these
- `measure`: what the audit says of all cases, and the bounds that so few cases allow
- `__main__`: prints it
"""
