"""Stage 6, plan: compared replica lists, waves, throttles, the balance of brokers, the figures."""
