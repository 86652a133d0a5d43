"""Kafka's size limits for waves and documents.

References
----------
Kafka 4.3.1: a config value is a record's string of at most ``Short.MAX_VALUE`` bytes ("field is too long to be
serialized"); ``QuorumController.MAX_RECORDS_PER_USER_OP`` for records of one request ("excessively large batch"), for
partitions of one reassignment and of one election. Linux: ``MAX_ARG_STRLEN``, including the closing zero.
"""

CONFIG_VALUE_CHARACTERS = 32_767  # Kafka stores the length of a record's string as a short
RECORDS_PER_REQUEST = 10_000  # QuorumController.MAX_RECORDS_PER_USER_OP
PARTITIONS_PER_REQUEST = 10_000  # the same limit, because each partition is a record
ARGUMENT_BYTES = 128 * 1024 - 1  # Linux: MAX_ARG_STRLEN of 32 pages, minus the closing zero
# The reassignment tool sets and removes the lists of all topics of a document in one request, with two records per
# topic.
TOPICS_PER_REQUEST = RECORDS_PER_REQUEST // 2


def list_characters(partition: int, brokers: int, digits: int) -> int:
    """Characters that one partition adds to a throttle list: ``partition:broker`` and a comma for each broker.

    Parameters
    ----------
    brokers, digits : int
        Number of the brokers listed, and of the digits of all their ids.
    """
    return brokers * (len(str(partition)) + 2) + digits


# ``list_characters`` counts one comma more than a list has.
LIST_CHARACTERS = CONFIG_VALUE_CHARACTERS + 1
