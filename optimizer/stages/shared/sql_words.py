"""SQL of counts as people read them: what ``units`` does with numbers, in a query with columns."""


def plural(count: str, noun: str) -> str:
    """SQL for ``1 broker``, ``2 brokers``.

    >>> plural("room", "broker")
    "concat(room, if(room = 1, ' broker', ' brokers'))"
    """
    return f"concat({count}, {agree(count, f' {noun}', f' {noun}s')})"


def agree(count: str, one: str, more: str) -> str:
    """SQL for the words that go with a count."""
    return f"if({count} = 1, '{one}', '{more}')"
