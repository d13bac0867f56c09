"""The paper's numbers (Emami et al., ICML 2021), as data. ARI is that of the foreground; spreads are over seeds."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """A mean and its standard deviation over seeds, as printed in the paper."""

    mean: float
    sd: float
    note: str = ""


# The systems by their names in presets, as they are called in print.
SYSTEMS = {
    "efficient-morl": "EfficientMORL",
    "slot-attention": "Slot Attention",
    "iodine": "IODINE",
    "monet": "MONet",
    "slot-mlp": "Slot MLP",
    "genesis": "GENESIS",
    "genesis-s": "GENESIS-S",
    "genesis-v2": "GENESIS-V2",
}

# Table 1, five seeds, by (system, data set). Multi-dSprites is the variant with a grey background.
PUBLISHED_ARI: dict[tuple[str, str], Published] = {
    ("efficient-morl", "clevr6"): Published(0.962, 0.016),
    ("efficient-morl", "multi-dsprites"): Published(0.912, 0.004),
    ("efficient-morl", "tetrominoes"): Published(0.982, 0.018),
    ("slot-attention", "clevr6"): Published(0.988, 0.003, "0.933 ± 0.111 when the authors ran it again"),
    ("slot-attention", "multi-dsprites"): Published(0.913, 0.003),
    ("slot-attention", "tetrominoes"): Published(0.995, 0.002, "four of five seeds"),
    ("iodine", "clevr6"): Published(0.988, 0.0),
    ("iodine", "multi-dsprites"): Published(0.767, 0.056),
    ("iodine", "tetrominoes"): Published(0.992, 0.004),
    ("monet", "clevr6"): Published(0.962, 0.006),
    ("monet", "multi-dsprites"): Published(0.904, 0.008),
    ("slot-mlp", "clevr6"): Published(0.604, 0.066),
    ("slot-mlp", "multi-dsprites"): Published(0.603, 0.018),
    ("slot-mlp", "tetrominoes"): Published(0.251, 0.343),
}

# Table 2 by (variant, data set): Tetrominoes over five seeds, CLEVR6 after 50 000 steps over ten.
PUBLISHED_ABLATIONS: dict[tuple[str, str], dict[str, Published]] = {
    ("full", "tetrominoes"): {
        "ari": Published(0.979, 0.024),
        "mse": Published(7.0e-4, 6.0e-4),
        "kl": Published(98.5, 21.4),
    },
    ("reversed prior", "tetrominoes"): {
        "ari": Published(0.869, 0.162),
        "mse": Published(22.1e-4, 21.4e-4),
    },
    ("bottom-up prior", "tetrominoes"): {
        "ari": Published(0.857, 0.110),
        "mse": Published(17.1e-4, 14.6e-4),
    },
    ("without GECO", "tetrominoes"): {
        "ari": Published(0.822, 0.177),
        "mse": Published(68.8e-4, 42.2e-4),
        "kl": Published(45.9, 9.3),
    },
    ("full", "clevr6"): {
        "ari": Published(0.824, 0.079),
        "mse": Published(8.3e-4, 1.1e-4),
        "kl": Published(692.7, 281.4),
    },
    ("without DualGRU", "clevr6"): {
        "ari": Published(0.797, 0.223),
        "mse": Published(8.1e-4, 1.7e-4),
        "kl": Published(1357.0, 322.0),
    },
    ("without GECO", "clevr6"): {
        "ari": Published(0.799, 0.099),
        "mse": Published(9.9e-4, 2.5e-4),
        "kl": Published(177.5, 14.7),
    },
}

# Table 3, five runs. Informativeness counts a continuous factor as 0: `DCI.informativeness_published`.
PUBLISHED_DCI: dict[tuple[str, str], dict[str, Published]] = {
    ("efficient-morl", "clevr6"): {
        "dci_disentanglement": Published(0.63, 0.04),
        "dci_completeness": Published(0.63, 0.06),
        "dci_informativeness_published": Published(0.46, 0.01),
    },
    ("slot-attention", "clevr6"): {
        "dci_disentanglement": Published(0.46, 0.01),
        "dci_completeness": Published(0.38, 0.02),
        "dci_informativeness_published": Published(0.34, 0.01),
    },
}


def published(system: str, dataset: str) -> dict[str, Published]:
    """The paper's scores of one system on one data set, by their names in METRICS; may be empty."""
    found = {"ari": PUBLISHED_ARI[system, dataset]} if (system, dataset) in PUBLISHED_ARI else {}
    if (system, dataset) == ("efficient-morl", "tetrominoes"):  # whose whole training Table 2 has as "full"
        full = PUBLISHED_ABLATIONS["full", dataset]
        found |= {name: full[name] for name in ("mse", "kl")}
    return found
