"""JSON documents inside a text: the start and end of each, valid or broken."""

import pytest

from sources.json_text import documents


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ('{"a": 1}', [(1, '{"a": 1}', True)]),
        ('x\n{"a": 1}\n\n{"b": [2]}\n', [(2, '{"a": 1}', True), (4, '{"b": [2]}', True)]),
        ('{"replicas": [1,]}\n{"replicas": [2]}', [(1, '{"replicas": [1,]}', False), (2, '{"replicas": [2]}', True)]),
        ('{"replicas": [1,\n"a", 2}\n]}', [(1, '{"replicas": [1,\n"a", 2}\n]', False)]),
        ('{"replicas": [1\n$ ls\n{"a": 1}', [(1, '{"replicas": [1', False), (3, '{"a": 1}', True)]),
        ('{"nothing of ours": [1,]}\n{"a": 1}', [(2, '{"a": 1}', True)]),
    ],
)
def test_pieces_of_a_text(text: str, pieces: list[tuple[int, str, bool]]) -> None:
    """A broken document ends where its brackets balance or something else begins; what follows is read."""
    assert [(document.line, document.text, document.error is None) for document in documents(text)] == pieces


def test_lines_of_a_key() -> None:
    """Each occurrence of a key has its line; after the last one the document's line follows."""
    (document,) = documents('x\n[{"topic": 1},\n\n{"topic": 2}]')
    lines = document.lines_of("topic")
    assert [next(lines) for _ in range(4)] == [2, 4, 2, 2]
