"""Stage 3, snapshot: the policy applied to the silver tables."""
