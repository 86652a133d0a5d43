"""Stage emit: gathers each cluster's rows, makes its documents, has them audited and writes the files."""
