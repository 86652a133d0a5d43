"""Lower bounds on the bytes that any plan as balanced copies, from prices of load; ``certificate`` gathers them."""
