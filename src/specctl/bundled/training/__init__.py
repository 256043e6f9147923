"""The recipe of the bundled pair: the drawn world, the models, training, evaluation, samples.

Run it with `python -m specctl.bundled.training --help`.
"""
