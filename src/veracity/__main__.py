"""`python -m veracity` is the command line."""

from veracity.cli import main

if __name__ == "__main__":
    main()
