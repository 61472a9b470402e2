"""Where work runs: this process, or the ranks of a torchrun launch."""
