"""A device that is not the CPU, for machines without a GPU: it computes on the CPU, but refuses tensors of the CPU.

PyTorch calls it "meta". Factories and copies to that device make `Elsewhere` tensors; an operation that mixes these
with tensors of the CPU fails, as it does on a GPU, unless those are single numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("meta")
aten = torch.ops.aten
MAY_MIX = {aten._to_copy.default, aten.copy_.default, aten.index.Tensor, aten.index_put_.default}


class Elsewhere(Tensor):
    """A tensor of that device, with its values."""

    held: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> Elsewhere:
        made: Any = Tensor._make_wrapper_subclass(
            cls, values.shape, strides=values.stride(), dtype=values.dtype, device=DEVICE
        )
        made.held = values
        return made  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        """Its values, which PyTorch does not tell of subclasses."""
        return self.held.tolist()

    def new_tensor(self, data: Any) -> Tensor:  # type: ignore[override]
        """`data` on its device, which PyTorch would leave without values there."""
        return torch.tensor(data, dtype=self.dtype).to(DEVICE)

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(as_tensors(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(as_tensors(index), value)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return computed(func, args, kwargs or {})


class OtherDevice(TorchDispatchMode):
    """While it lasts, there is that device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(func, args, kwargs or {})


def as_tensors(index: Any) -> Any:
    """An index whose lists are tensors of the CPU, which every device takes; PyTorch would put them on "meta"."""
    if isinstance(index, tuple):
        return tuple(map(as_tensors, index))
    return torch.tensor(index, dtype=torch.long) if isinstance(index, list) else index


def computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What `func` returns, on the device on which it would be."""
    inputs = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, Tensor)]
    there = [value for value in inputs if isinstance(value, Elsewhere)]
    goal = kwargs.get("device")
    if (
        there
        and func not in MAY_MIX
        and any(len(one.shape) for one in inputs if not isinstance(one, Elsewhere))
    ):
        raise RuntimeError(f"{func} mixes devices")
    plain = tree_map(lambda value: value.held if isinstance(value, Elsewhere) else value, (args, kwargs))
    if goal is not None:
        plain[1]["device"] = torch.device("cpu")
    result = func(*plain[0], **plain[1])
    if func is aten.copy_.default or (func._schema.name.endswith("_") and inputs):
        return args[0]
    is_there = torch.device(goal).type == DEVICE.type if goal is not None else bool(there)
    if not is_there:
        return result
    return tree_map(lambda value: Elsewhere(value) if isinstance(value, Tensor) else value, result)
