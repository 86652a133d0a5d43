"""The config that keeps new replicas off a broker (KIP-1066, Kafka 4.3)."""

CORDON = "cordoned.log.dirs"
ALL_DIRS = "*"
LEAST_METADATA_LEVEL = 30  # of metadata.version: 4.3-IV0 (``MetadataVersion``); below it the config is refused


def delete_command(broker: int, controllers: str, options: str) -> str:
    """The command that deletes the config at the controllers, also of a broker that is gone.

    Parameters
    ----------
    options : str
        More options of the tool, with a space before.
    """
    return (
        f"kafka-configs.sh --bootstrap-controller {controllers}{options} --alter --entity-type brokers "
        f"--entity-name {broker} --delete-config {CORDON}"
    )
