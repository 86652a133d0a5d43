"""Stage validate: data quality rules, the clean tables, quarantine, and the quality gate."""
