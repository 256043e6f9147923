"""Protocols (text to tool call and answer, and back), boxes and tools; knows no model."""
