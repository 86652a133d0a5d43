"""SQL that puts counts into words: what ``units`` does with numbers, here with columns."""


def plural(count: str, noun: str) -> str:
    """SQL for ``1 broker``, ``2 brokers``.

    >>> plural("n", "broker")
    "concat(n, if(n = 1, ' broker', ' brokers'))"
    """
    return f"concat({count}, {agree(count, f' {noun}', f' {noun}s')})"


def agree(count: str, singular: str, many: str) -> str:
    """SQL for the form of a word that agrees with a count."""
    return f"if({count} = 1, '{singular}', '{many}')"
