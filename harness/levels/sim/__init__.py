"""Level `sim`: whole runs in virtual time, thousands of them."""
