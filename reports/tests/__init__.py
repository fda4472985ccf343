"""Claims about the reports, on small histories written by hand."""
