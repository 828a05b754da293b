"""`python -m dashboard`: the same as `envelope dashboard`."""

from __future__ import annotations

import sys

from calc.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["dashboard"]
    main()
