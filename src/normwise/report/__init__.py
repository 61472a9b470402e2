"""Saved results in, text out: plots, one self-contained HTML page, the model card."""
