"""In how many batches brokers may restart, in one sentence."""

from optimizer.units import agree

LACKS_PARTITIONS = "Partitions in input that was left out are not considered."


def restart_in_words(batches: tuple[int, int], least: tuple[int, int], blockers: str) -> str:
    """The batches before and after a plan, and what the plan repairs.

    Parameters
    ----------
    batches : tuple of int
        That were found.
    least : tuple of int
        No order has fewer.
    blockers : str
        What the batches after the plan would stop before it; empty if nothing.
    """
    before, after = (
        f"({'proven fewest' if found == bound else f'the best found, {bound} or more are needed'})"
        for found, bound in zip(batches, least, strict=True)
    )
    now = f"Restart in {batches[0]:,} {agree(batches[0], 'batch', 'batches')} now {before}"
    blocks = f"; what blocks: {blockers}" if blockers else ""
    return f"{now}, in {batches[1]:,} after this plan {after}{blocks}."
