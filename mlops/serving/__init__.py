"""Serving a registered version over HTTP (an engine on a free port of loopback, and a small proxy before it), and what
people say.

- `version`: the version that is served, its files, and what its environment shows
- `engines`: starting vLLM or MLflow's server for a version; loading another version beside it
- `proxy`: the HTTP application, which adds what the version was trained with and says which one answers
- `conversations`: what is asked and answered, as traces in MLflow without secrets and personal data
- `server`: all of it together, until a signal ends it; follows an alias to another version
- `use`: what people asked, read back as tasks of a run
- `review`: people asked about attempts of a run, and what they said
"""
