"""Where a run computes: checks that its devices are there, and starts its processes on them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import torch

from emorl.errors import UserError
from emorl.runs.checkpoint import shape_of_model
from emorl.runs.config import RunConfig, TrainConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric

# Run in a process of its own: on some virtual machines bf16 ends with an illegal instruction.
PROBE = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); print((x @ x).sum())"


def launch(run: RunConfig) -> Fabric:
    """Starts the processes a run asks for; fabric also recognises torchrun and SLURM."""
    check_devices(run.train)
    from lightning_fabric import Fabric  # here, because importing it takes seconds
    from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
    from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
    from lightning_fabric.strategies.ddp import DDPStrategy

    train = run.train
    if train.nodes > 1 and not (TorchElasticEnvironment.detect() or SLURMEnvironment.detect()):
        raise UserError(
            f"train.nodes {train.nodes} needs a launcher that starts a process on each node: torchrun or SLURM's srun. "
            "See docs/scaling.md."
        )
    strategy: Any = "auto"
    if train.devices * train.nodes > 1:
        model = shape_of_model(run.model)
        fewest = None if train.num_steps is None else int(train.num_steps.smallest)
        is_fully_used = model.is_fully_used(fewest)
        strategy = DDPStrategy(find_unused_parameters=not is_fully_used)
    fabric = Fabric(
        accelerator=train.accelerator,
        devices=train.devices,
        num_nodes=train.nodes,
        strategy=strategy,
    )
    if train.precision == "bf16-mixed" and fabric.device.type == "cpu":
        check_bf16()
    try:
        if TorchElasticEnvironment.detect():  # fabric looks only where it expects several processes
            TorchElasticEnvironment().validate_settings(train.devices, train.nodes)
        fabric.launch()
    except ValueError:
        raise UserError(
            f"train.devices {train.devices} and train.nodes {train.nodes} do not fit the processes that torchrun or "
            "SLURM has started: the first is their number on each node, the second the number of nodes."
        ) from None
    return fabric


def check_devices(train: TrainConfig) -> None:
    """Raises UserError for GPUs that are not there."""
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if train.accelerator == "cuda" and found == 0:
        raise UserError("There is no CUDA device here; use --train.accelerator cpu, or auto.")
    if train.accelerator != "cpu" and 0 < found < train.devices:
        raise UserError(f"train.devices is {train.devices}, but there are {found} CUDA devices here.")


def device_of(train: TrainConfig) -> str:
    """Returns the kind of device that fabric will choose."""
    if train.accelerator != "auto":
        return train.accelerator
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def check_bf16() -> None:
    """Raises UserError where a product of bf16 numbers fails."""
    result = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=False)
    if result.returncode != 0:
        raise UserError(
            "This CPU cannot compute in bf16 (virtual machines may announce AMX and not have it). "
            "Use --train.precision 32-true, or set ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 before you start."
        )
