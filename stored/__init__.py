"""Reads finished runs from the tables of a warehouse, without Spark; the command line and its journal are above it."""
