"""Attention's backward pass by tiles: P is computed again from Q, K and the log-sum-exp, one tile at a time.

Source: FlashAttention-2, arXiv 2307.08691, algorithm 2 (outer loop over column tiles). One head, no mask.
"""

import math

import numpy as np

from snippets.attention import scores
from snippets.checks import positive


# --8<-- [start:backward]
def tiled_backward(Q, K, V, O, dO, lse, q_tile=4, k_tile=4):
    """(dQ, dK, dV), the gradients of sum(O * dO), with only one [q_tile, k_tile] tile of P at a time.

    Q [S_q, d], K [S_kv, d], V [S_kv, d_v], O and dO [S_q, d_v], lse [S_q] the natural
    log-sum-exp of the scores; NumPy arrays of one float dtype. ValueError: tiles below 1.
    """
    positive(q_tile=q_tile, k_tile=k_tile)
    scale = 1 / math.sqrt(Q.shape[1])
    D = (O * dO).sum(axis=1)  # [S_q], equal to the row sums of P * dP
    dQ, dK, dV = (np.zeros_like(X) for X in (Q, K, V))
    for col in range(0, len(K), k_tile):
        for row in range(0, len(Q), q_tile):
            r, c = slice(row, row + q_tile), slice(col, col + k_tile)
            P = np.exp(scores(Q[r], K[c], row, col, None) - lse[r, None])  # computed again
            dS = P * (dO[r] @ V[c].T - D[r, None])
            dV[c] += P.T @ dO[r]
            dK[c] += dS.T @ Q[r] * scale
            dQ[r] += dS @ K[c] * scale  # met again at every column tile
    return dQ, dK, dV
# --8<-- [end:backward]
