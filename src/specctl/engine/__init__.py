"""Query logic as generators of requests, and the drivers that run them; prints nothing, reads no
clock.
"""
