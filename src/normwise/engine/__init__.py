"""Where work runs: this process, or the ranks of torchrun."""
