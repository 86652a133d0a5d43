"""The report of one cluster: an HTML page that people approve a plan by."""
