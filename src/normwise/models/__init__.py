"""Encoders with their contract: loading, cutting, LoRA with verified merge, probe vectors, saving."""
