"""What every room stands on: errors, similarity names, config, records, and the one module that writes files."""
