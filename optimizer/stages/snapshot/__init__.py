"""Stage snapshot."""
