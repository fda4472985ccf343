"""Reports of finished runs: one HTML page, JUnit XML, JSON, Markdown and terminal text."""
