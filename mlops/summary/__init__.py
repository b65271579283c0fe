"""What came of a run: the contract of its summary, and every sentence that is made of it.

- `summary`, `sections`: the contract and its parts
- `file`, `target`: its file in the home; the file that `--summary` names
- `arms`: what is computed for it from the evaluations of a run's arms
- `caveats`: what stands beside a result: tasks that are not new, and what training cost elsewhere
- `controls`: what the controls of a run are called, and the sentences about them
- `headline`, `verdict`, `blocks`: what came of a run in one sentence with its numbers; in all of them; as blocks
- `result`: how MLflow shows it first
- `version_facts`: what is known of a version when its policy is registered
- `evaluations`: what an evaluation of models came to
- `replays`, `replay_blocks`: what a rescoring or a retraining of a run came to, and how that is told
"""
