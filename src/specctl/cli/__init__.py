"""The command line: one module a command. Nothing here imports torch before a command needs it."""

from specctl.cli.app import app, main

__all__ = ["app", "main"]
