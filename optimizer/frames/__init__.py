"""One file a stage: DataFrames in, DataFrames out."""
