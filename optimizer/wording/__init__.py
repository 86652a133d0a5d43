"""Findings in words: the solver states codes and facts; only this package makes sentences of them."""
