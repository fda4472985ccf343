"""Lookups as strangers write them, wrong and right: `tools.trials.lookups_trial` runs each and compares the verdict."""
