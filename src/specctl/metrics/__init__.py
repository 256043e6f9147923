"""Numbers from results: pure functions over plain values, each with its formula and denominator."""
