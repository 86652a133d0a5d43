"""Mutation testing: put small faults into the code, one at a time, and check whether a test fails."""
