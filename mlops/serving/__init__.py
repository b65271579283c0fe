"""Serving a registered version over HTTP: an engine on a free port of loopback, and a small proxy before it.

- `version`: the version that is served, its files, and what its environment shows
- `asked`: a request as the engine gets it: the version's model, system prompt and tools
- `engines`: starting vLLM or MLflow's server for a version
- `backend`: an engine that has a version; loading another version beside it
- `proxy`, `headers`: the HTTP application; what every answer says of the version
- `origin`: requests that a page in a browser may have made, which are refused
- `watch`: noticing that an alias names another version, and following it
- `exchange`, `answered`: the conversations of a request and its answer; what an engine has answered
- `traces`: what MLflow gets of them, without secrets and personal data
- `conversations`: writes these beside the answers
- `server`: all of it together, until a signal ends it
"""
