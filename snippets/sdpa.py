"""Which backends of PyTorch's scaled_dot_product_attention may serve a call: each is asked to do it alone.

Source: PyTorch's documentation of torch.nn.attention.sdpa_kernel. It says what can run, not what runs by default.
"""

import warnings

import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

REFUSALS = ("No available kernel", "No viable backend")


# --8<-- [start:usable]
def usable(q, k, v, **options):
    """Names of the backends that accept this very call; q, k, v [B, H, S, d], options as SDPA takes them.

    Any error but a refusal (memory running out, say) is raised.
    """
    names = []
    for name, backend in SDPBackend.__members__.items():
        try:
            with warnings.catch_warnings(), sdpa_kernel(backend):
                warnings.simplefilter("ignore")  # on a GPU each refusal explains itself at length
                F.scaled_dot_product_attention(q, k, v, **options)
        except RuntimeError as error:
            if not any(words in str(error) for words in REFUSALS):
                raise
        else:
            names.append(name)
    return names
# --8<-- [end:usable]
