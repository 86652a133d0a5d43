"""The rules of a placement: racks, pins, mobility, spread of topics, and the bands of its resources."""
