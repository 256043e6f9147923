"""Checkpoints, prompts to ids and positions, sessions with kept keys and values, batched steps; knows no agent."""
