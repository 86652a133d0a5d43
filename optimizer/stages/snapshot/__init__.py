"""Stage snapshot: the policy on the clean tables, which makes the instance that is planned."""
