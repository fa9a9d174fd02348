"""``python -m midwatch_client`` is the `midwatch` command."""

from midwatch_client.cli import main

if __name__ == "__main__":
    main()
