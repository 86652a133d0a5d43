"""What people are told of a plan: its moves with their reasons (``proposal``), and what it mends or leaves."""
