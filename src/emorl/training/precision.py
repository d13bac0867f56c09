"""Whether a CPU can compute in bf16: some virtual machines say so, and die of it."""

from __future__ import annotations

import subprocess
import sys

from emorl.errors import UserError

# In a process of its own: it may end with an illegal instruction.
PROBE = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); print((x @ x).sum())"


def check_bf16() -> None:
    """Raises UserError where a product of bf16 numbers fails."""
    result = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=False)
    if result.returncode != 0:
        raise UserError(
            "This CPU cannot compute in bf16 (virtual machines may announce AMX and not have it). "
            "Use --train.precision 32-true, or set ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 before you start."
        )
