"""Another tool's plan: read, checked against a run, and measured."""
