"""Optimisers: Adam, and Muon for whoever trains on a laptop.

Muon (Jordan et al., 2024) replaces the momentum of a weight matrix by the nearest orthogonal one, so that every
direction is learned at the same speed. Convolutions count as matrices (out, in x height x width); vectors are left to
Adam. torch.optim.Muon takes two-dimensional parameters only, which leaves out all convolutions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from emorl.runs.config import TrainConfig

ADAM_STATE = {"step", "exp_avg", "exp_avg_sq"}  # what torch.optim.Adam keeps of each parameter
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic whose iteration pushes singular values towards one


def build_optimizer(model: nn.Module, train: TrainConfig) -> torch.optim.Optimizer:
    """Returns the optimiser that `train` names, for all parameters of `model`."""
    if train.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), lr=train.learning_rate.final)
    return Muon(model.parameters(), lr=train.learning_rate.final, size=train.muon_size)


def load_state(optimizer: torch.optim.Optimizer, saved: Mapping[str, Any]) -> None:
    """Takes over the averages of a checkpoint; raises ValueError unless they fit the optimiser's parameters.

    Learning rates and other numbers of the groups are not taken: they are settings, which resuming does not change.
    """
    own = optimizer.state_dict()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    numbers = [number for group in own["param_groups"] for number in group["params"]]
    shapes = {number: p.shape for number, p in zip(numbers, parameters, strict=True)}
    state = saved.get("state")
    if not isinstance(state, dict) or not all(isinstance(values, dict) for values in state.values()):
        raise ValueError("its optimiser has no state")
    needed = ADAM_STATE if isinstance(optimizer, torch.optim.Adam) else {"average"}
    for number, values in state.items():
        if number not in shapes or not needed <= set(values):
            raise ValueError("its optimiser is another one")
        for value in values.values():
            is_number = isinstance(value, int | float) or (isinstance(value, Tensor) and value.ndim == 0)
            if not is_number and not (isinstance(value, Tensor) and value.shape == shapes[number]):
                raise ValueError("its optimiser is of another model")
            if isinstance(value, Tensor) and not value.is_floating_point():
                raise ValueError("its optimiser holds what is no real number")
            if not torch.as_tensor(value).isfinite().all():
                raise ValueError("its optimiser holds numbers that are not finite")
    optimizer.load_state_dict({"state": state, "param_groups": own["param_groups"]})


class Muon(torch.optim.Optimizer):
    """Matrices follow their orthogonalised momentum, vectors follow Adam."""

    def __init__(
        self, parameters: Iterable[Tensor], *, lr: float, size: float, momentum: float = 0.95
    ) -> None:
        """`size` is the root mean square of a matrix's update in units of the learning rate."""
        parameters = list(parameters)
        kinds = {kind: [p for p in parameters if is_matrix(p) == kind] for kind in (True, False)}
        groups: list[dict[str, Any]] = [{"params": ps, "is_matrix": kind} for kind, ps in kinds.items() if ps]
        super().__init__(
            groups, {"lr": lr, "momentum": momentum, "size": size, "betas": (0.9, 0.999), "eps": 1e-8}
        )

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            trained = [p for p in group["params"] if p.grad is not None]
            if group["is_matrix"]:
                by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
                for p in trained:
                    by_shape[p.shape].append(p)
                for parameters in by_shape.values():
                    self.step_matrices(parameters, group)
            else:
                for p in trained:
                    self.step_vector(p, group)

    def step_matrices(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        """Matrices of one shape share their products."""
        directions = []
        for p in parameters:
            assert p.grad is not None
            average = self.state[p].setdefault("average", torch.zeros_like(p))
            average.lerp_(p.grad, 1 - group["momentum"])
            directions.append(p.grad.lerp(average, group["momentum"]))  # Nesterov's
        stacked = torch.stack([as_matrices(direction) for direction in directions])
        rows, columns = stacked.shape[-2:]
        updates = orthogonalise(stacked) * group["size"] * max(rows, columns) ** 0.5
        for p, update in zip(parameters, updates, strict=True):
            p.add_(update.reshape(p.shape), alpha=-group["lr"])

    def step_vector(self, p: Tensor, group: dict[str, Any]) -> None:
        """Adam (Kingma & Ba, 2015)."""
        assert p.grad is not None
        state = self.state[p]
        average = state.setdefault("average", torch.zeros_like(p))
        square = state.setdefault("square", torch.zeros_like(p))
        step = state["step"] = state.get("step", 0) + 1
        average.lerp_(p.grad, 1 - group["betas"][0])
        square.lerp_(p.grad.square(), 1 - group["betas"][1])
        corrected = (square / (1 - group["betas"][1] ** step)).sqrt_().add_(group["eps"])
        p.addcdiv_(average, corrected, value=-group["lr"] / (1 - group["betas"][0] ** step))


def is_matrix(p: Tensor) -> bool:
    """Whether orthogonality means something: at least five rows and columns."""
    return p.ndim >= 2 and min(as_matrices(p).shape[-2:]) > 4


def as_matrices(p: Tensor) -> Tensor:
    """Flattens a convolution's kernel into the columns; three dimensions are a stack of matrices already."""
    return p.flatten(1) if p.ndim == 4 else p


def orthogonalise(matrices: Tensor, *, iterations: int = 5) -> Tensor:
    """Replaces the singular values of `matrices` (..., rows, columns) by numbers between about 0.7 and 1.2."""
    a, b, c = COEFFICIENTS
    is_tall: bool = matrices.shape[-2] > matrices.shape[-1]
    x: Tensor = matrices.mT if is_tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-12)
    for _ in range(iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if is_tall else x
