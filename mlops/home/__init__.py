"""The home of runs, `.rlft`: made, looked at and restored. Only `stores` imports ZenML and MLflow.

- `folder`, `variables`, `settings`: the folder; the environment variables that lead to it; ZenML's settings in it
- `stores`, `databases`: making the two databases; what they are and whether they are whole
- `entries`, `lost`: what lies there that should be something else; folders of runs that are gone, aliases of no version
- `contents`, `faults`: whether something else than SQLite has changed them; what is wrong with them, in sentences
- `backups`, `restore`, `salvage`: copies of them, and putting a home in order whose databases were damaged
- `processes`, `last_calls`: which process runs what, and what ran in one that ended without a word
- `locks`: what keeps two processes from doing the same at once
- `trusted`: whose settings this account trusts
"""
