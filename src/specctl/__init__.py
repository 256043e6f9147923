"""specctl: speculative drafting, gating and verification for agentic vision-language models."""

__version__ = "0.1.0"
