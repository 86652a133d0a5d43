"""The rules of a placement: racks, pins, bands, spread of topics."""
