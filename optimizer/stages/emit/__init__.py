"""Stage 7, emit: gathers the rows of each cluster, makes its documents, audits them and writes the files."""
