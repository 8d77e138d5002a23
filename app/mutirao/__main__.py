"""`python -m mutirao`: the same as the `mutirao` command."""

from mutirao.cli.main import main

if __name__ == "__main__":
    main()
