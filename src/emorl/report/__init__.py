"""Reports: HTML pages about runs."""
