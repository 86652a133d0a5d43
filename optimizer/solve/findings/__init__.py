"""What people are told of a plan: its moves with their reasons (``net_moves``), and what it mends or leaves."""
