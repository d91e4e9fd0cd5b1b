"""``python -m ziggurat`` is the command line."""

import sys

from ziggurat.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
