"""`python -m normwise` is the command `normwise`."""

from normwise.cli import main

if __name__ == "__main__":
    main()
