"""Search over documents, for environments whose answers have to be found.

- `client`: what an environment asks of a search (`SearchClient`, `Hit`, `Document`); anything that answers it will do
- `index`: the client that comes with rlft, over a JSONL file in memory
- `documents`, `lexical`, `embedding`: what it is made of
- `loading`: the client that an environment's arguments ask for
"""
