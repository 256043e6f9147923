"""`python -m specctl`."""

from specctl.cli import main

main()
