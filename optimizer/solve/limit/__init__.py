"""Plans under a limit."""
