"""Checkpoints, prompts to ids and positions, sessions with kept KV, batched steps; no agents."""
