"""How artifacts are stored: tables as parquet, policies as folders of safetensors, reports as JSON, pages as HTML.
Never pickle.

Each materializer gives a content hash, so that caching looks at what an artifact is and not at when it was made.

Nothing is imported here: who reads a table or a report needs neither torch nor transformers, which policies bring.
"""
