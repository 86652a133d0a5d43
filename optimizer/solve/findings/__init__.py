"""What people are told of a plan."""
