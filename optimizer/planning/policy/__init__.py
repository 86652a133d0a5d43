"""The rules of a policy for one cluster: facts and settings become rows of ``instance`` and ``instance_brokers``."""
