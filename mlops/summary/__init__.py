"""What came of a run: the contract of its summary, and every sentence that is made of it.

- `summary`: the contract and its parts
- `file`: its file in the home, and that of an evaluation of models; the file that `--summary` names
- `arms`: what is computed for it from the evaluations of a run's arms, and what stands beside that: tasks that are not
  new, and what training cost elsewhere
- `verdict`: what came of a run in one sentence with its numbers, in all of them, and as blocks; its controls in words
- `result`: how MLflow shows it first
- `version_facts`: what is known of a version when its policy is registered
- `replays`: what a rescoring or a retraining of a run came to, and how that is told
"""
