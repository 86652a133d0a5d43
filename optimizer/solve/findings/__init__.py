"""Findings of a plan: problems that it fixes or leaves; and its moves with their reasons (``net_moves``)."""
