"""What is known of a run.

- `runs`, `record`: the runs of a home; the record that a run opens in MLflow and keeps up to date
- `labels`, `commits`, `lineage`: its name, note and tags; the commits of its code; what it was made from
- `summary`, `summary_file`: what came of it, and the file that says so
- `stored_rollouts`, `stored_files`, `retention`: its rollouts, found and read again, and how long they are kept
"""
