"""Stage plan: lists side by side, waves, throttles, the balance of brokers, the figures."""
