"""Faults on purpose: a tiny run meets each of them, and what it says is followed to the word.

    python -m benchmarks.faults --json [--kind corruption] [--only flipped]

A fault ends as one of four:

- `survived`: the run went to its end and made the same policies as a run that was left alone;
- `stopped`: the command ended with a sentence and an exit code; `recovered` counts those of them after which the
  command that the sentence names went to the end of the run, to the same policies;
- `raw`: a traceback, an unexpected error, or more lines than a person reads;
- `silent`: the exit code is 0 and the policies are others, or the damage was not named where it had to be.
"""
