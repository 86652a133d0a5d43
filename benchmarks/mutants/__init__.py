"""Mutation: small faults put into the code one at a time, and whether the tests see them."""
