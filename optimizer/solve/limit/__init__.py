"""Plans under a limit of bytes, moves or disks: which changes are kept."""
