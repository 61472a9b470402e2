"""One file per verb: what a command does, in order."""
