"""Lower bounds on the bytes that any plan copies."""
