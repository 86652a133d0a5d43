"""What several stages use: arrays of a cluster, typed records, names the policy may use, what the audit is asked."""
