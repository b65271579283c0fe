"""Reads documents from a JSON Lines file with `doc_id`, `title` (may be missing) and `text`; ignores other fields."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rlft.errors import EnvironmentSetupError
from rlft.files import each_key_once, expanded, why_no_file
from rlft.search.client import Document

_ID = re.compile(r"\w(?:[^\s,;]*[\w)])?")
_FIX = 'give one object in each line: {"doc_id": "...", "title": "...", "text": "..."}'


def load_documents(path: str | Path) -> tuple[Document, ...]:
    """Return the documents of a file, sorted by id.

    Raises `EnvironmentSetupError` for a file that cannot be read or has no documents, and, naming the line, for a row
    that is no document and for an id given twice.
    """
    path = expanded(str(path))
    if problem := why_no_file(path):
        raise EnvironmentSetupError(
            f"cannot be read: {problem}", where=f"documents: {path}", fix="give the path of a JSON Lines file"
        )
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # not `splitlines`: texts may hold U+2028 and the like
    except (OSError, ValueError) as error:
        raise EnvironmentSetupError(
            f"cannot be read: {error}", where=f"documents: {path}", fix="give the path of a JSON Lines file in UTF-8"
        ) from error
    found: dict[str, Document] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"documents: {path}:{number}"
        document = _document(line, where)
        if document.doc_id in found:
            raise EnvironmentSetupError(f"the id {document.doc_id!r} is given twice", where=where, fix="rename one")
        found[document.doc_id] = document
    if not found:
        raise EnvironmentSetupError("there are no documents in it", where=f"documents: {path}", fix=_FIX)
    return tuple(found[doc_id] for doc_id in sorted(found))


def hash_documents(documents: Iterable[Document]) -> str:
    """Return the sha256 (hexadecimal) of the documents' ids, titles and texts in their order."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(json.dumps([document.doc_id, document.title, document.text]).encode() + b"\n")
    return digest.hexdigest()


def _document(line: str, where: str) -> Document:
    """Return the document in one line. Raises EnvironmentSetupError with the place `where` if there is none."""
    try:
        row: Any = json.loads(line, object_pairs_hook=each_key_once)
    except ValueError as error:
        raise EnvironmentSetupError(f"no JSON: {error}", where=where, fix=_FIX) from error
    if not isinstance(row, dict):
        raise EnvironmentSetupError(f"{row!r:.80} is no object", where=where, fix=_FIX)
    doc_id, title, text = row.get("doc_id"), row.get("title") or "", row.get("text")
    if not isinstance(doc_id, str) or not _ID.fullmatch(doc_id):
        raise EnvironmentSetupError(
            f"{doc_id!r:.80} is no doc_id",
            where=where,
            fix="use one word without commas that begins and ends with a letter or digit",
        )
    if not isinstance(title, str) or not isinstance(text, str):
        raise EnvironmentSetupError(f"title or text of {doc_id!r} is no text", where=where, fix=_FIX)
    return Document(doc_id, title, text)
