"""Stage 2, validate: data quality rules, the silver tables, quarantine, and the quality gate."""
