"""What is known of a run.

- `runs`, `record`: the runs of a home; the record that a run opens in MLflow and keeps up to date
- `labels`, `commits`, `lineage`: its name, note and tags; the commits of its code; what it was made from
- `summary`, `outcome`, `summary_file`: the contract that says what came of it, what is computed for it, and its file
- `stored_rollouts`, `stored_files`, `retention`: its rollouts, found and read again, and how long they are kept
"""
