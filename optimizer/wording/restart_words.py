"""In how many batches brokers may restart, in one sentence."""

from optimizer.units import agree


def restart_in_words(batches: tuple[int, int], least: tuple[int, int], blockers: str, *, lacks_partitions: bool) -> str:
    """The batches before and after a plan, and what the plan repairs.

    Parameters
    ----------
    batches : tuple of int
        That were found.
    least : tuple of int
        No order has fewer.
    blockers : str
        What the batches after the plan would stop before it; empty if nothing.
    lacks_partitions : bool
        Whether some partitions may be unknown.
    """
    before, after = (
        f"({'proven fewest' if found == bound else f'the best found, {bound} or more are needed'})"
        for found, bound in zip(batches, least, strict=True)
    )
    now = f"Restart in {batches[0]:,} {agree(batches[0], 'batch', 'batches')} now {before}"
    blocks = f"; what blocks: {blockers}" if blockers else ""
    lacks = " Partitions in input that was left out are not considered." if lacks_partitions else ""
    return f"{now}, in {batches[1]:,} after this plan {after}{blocks}.{lacks}"
