"""Triton kernels of the chapter, one module per kernel; each module's header says what it takes and what it leaves out.

Without an NVIDIA device they run in Triton's interpreter, on the CPU. CUDA is not touched to find out: a process that
did could no longer fork.
"""

import glob
import os

if not glob.glob("/dev/nvidia[0-9]*"):  # before any @triton.jit runs, which is when Triton reads it; a value set stays
    os.environ.setdefault("TRITON_INTERPRET", "1")
