"""The figures that `make record` takes on a GPU, one module a group: the figures of NAME.py lie in docs/evidence/NAME.json.

`measure()` of each returns {KEY: {"value", "unit"}}: medians (kernels.timing), taken only after every result agreed with a
reference of higher precision. Peers are timed in the same run, so that a figure is compared with its own machine. A peer
that this machine does not offer has no figure, and the key `absent` says which and why; anything else that fails raises.

By hand: `python -m kernels.benchmarks [NAME ...]` prints the figures.
"""

DEVICE = "cuda"
SEED = 19
