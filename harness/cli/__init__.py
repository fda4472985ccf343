"""The command line: one file a command, wired together by `harness.cli.main`."""
