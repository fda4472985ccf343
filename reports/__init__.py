"""Reports: finished runs for a reader, as one HTML page, JUnit XML, JSON, Markdown and terminal text."""
