"""Code that several stages use: typed records, names in the policy, causes, throttles, SQL words."""
