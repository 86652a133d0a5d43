"""Waves, throttle rates and time estimates: no Spark, no I/O."""
