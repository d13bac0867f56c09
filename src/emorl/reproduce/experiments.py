"""EXPERIMENTS: what each table and figure of the paper is about, needs and measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from emorl.errors import UserError, nearest
from emorl.report.published import (
    DATASET_TITLES,
    PUBLISHED_ABLATIONS,
    PUBLISHED_ARI,
    PUBLISHED_DCI,
    SYSTEMS,
    Published,
)
from emorl.reproduce import efficiency, figures, tables
from emorl.reproduce.trained import Row, Trained

Measure = Callable[[Sequence[Trained]], list[Row]]
Draw = Callable[[Sequence[Trained], Sequence[Row], Path], None]


@dataclass(frozen=True)
class Experiment:
    """One table or figure."""

    title: str
    paper: str  # what the paper found
    measure: Measure
    scores: tuple[str, ...]  # what of it the summary shows
    draw: Draw | None = None
    dataset: str = "tetrominoes"  # of the paper; the scale says what stands for it
    variants: Mapping[str, str] = field(default_factory=lambda: {"EfficientMORL": "full"})  # label -> variant
    # Where it is about well-trained models: these systems' own presets for these data sets, instead of variants of one.
    presets: tuple[str, ...] = ()
    systems: tuple[str, ...] = tuple(SYSTEMS)
    published: Mapping[str, Mapping[str, Published]] = field(default_factory=dict)  # label -> score -> value


def system_on(system: str, dataset: str) -> str:
    return f"{SYSTEMS[system]}, {DATASET_TITLES[dataset]}"


def named(*names: str) -> dict[str, str]:
    return {name: name for name in names}


EXPERIMENTS: dict[str, Experiment] = {
    "table-1": Experiment(
        "Decomposition of the systems",
        "EfficientMORL is on a par with Slot Attention, IODINE and MONet.",
        tables.decomposition,
        ("ari", "ari_at_I=0", "mse", "kl_refined"),
        presets=("tetrominoes", "multi-dsprites", "clevr6"),
        published={system_on(*key): {"ari": value} for key, value in PUBLISHED_ARI.items()},
    ),
    "table-2": Experiment(
        "Ablations",
        "The reversed prior++ is best; without GECO posteriors collapse; without the DualGRU the KL is high.",
        tables.ablations,
        ("ari", "mse", "kl_refined"),
        variants=named(
            "full", "bottom-up prior", "reversed prior", "without GECO", "automatic GECO", "without DualGRU",
            "increasing loss weights",
        ),
        published={
            label: values for (label, data), values in PUBLISHED_ABLATIONS.items() if data == "tetrominoes"
        },
    ),
    "table-3": Experiment(
        "Disentanglement (DCI)",
        "EfficientMORL disentangles better than Slot Attention, on CLEVR6.",
        tables.disentanglement,
        ("disentanglement", "completeness", "informativeness_published", "accuracy", "r2"),
        presets=("clevr6",),
        systems=("efficient-morl", "slot-attention", "iodine"),
        published={system_on(*key): values for key, values in PUBLISHED_DCI.items()},
    ),
    "figure-2": Experiment(
        "Loss with I = 0, 1 and 3 refinements in training",
        "Without refinement the loss gets stuck in poor minima; one step avoids them.",
        figures.final_loss,
        ("negative_elbo", "ari", "mse"),
        figures.draw_loss,
        variants=named("I=0", "I=1", "I=3"),
    ),
    "figure-3": Experiment(
        "KL and norms of the refinement updates over training",
        "When the KL converges, updates after the first become small.",
        figures.update_norms,
        ("kl_peak", "kl_end", "update_1_left", "update_2_left", "update_3_left"),
        figures.draw_norms,
        variants=named("I=3"),
    ),
    "figure-5": Experiment(
        "Decompositions",
        "Objects come apart on all data sets.",
        figures.scored,
        ("ari",),
        figures.draw_decompositions,
        presets=("tetrominoes", "multi-dsprites", "clevr6"),
        systems=("efficient-morl",),
    ),
    "figure-6": Experiment(
        "Intermediate posteriors and attention",
        "Layers divide the scene among slots, refinement does the rest.",
        figures.scored,
        ("ari",),
        figures.draw_posteriors,
        presets=("clevr6",),
        systems=("efficient-morl",),
    ),
    "figure-7": Experiment(
        "Refinements and objects at test time",
        "I = 0 keeps 99 % of ARI and has a higher KL; more objects than in training cost little.",
        figures.at_test_time,
        ("ari", "mse", "kl_hierarchical", "kl_refined"),
        figures.draw_at_test_time,
        variants=named("I=1", "I=3"),
    ),
    "figure-8": Experiment(
        "Number of stochastic layers",
        "L = 3 is best.",
        tables.ablations,
        ("ari", "mse", "kl_refined"),
        figures.draw_layers,
        dataset="clevr6",
        variants=named("L=0", "L=1", "L=2", "L=3", "L=4"),
    ),
    "figure-9": Experiment(
        "Traversals and activeness",
        "Few dimensions of a slot are active, and each changes one thing.",
        figures.active_dimensions,
        ("active", "dimensions"),
        figures.draw_traversals,
        presets=("clevr6",),
        systems=("efficient-morl",),
    ),
    "appendix-b": Experiment(
        "Edits of textured sprites",
        "Edits of EfficientMORL's slots stay with their object; those of GENESIS's change other slots too.",
        figures.edits,
        ("ari", "leakage", "leakage_of_others", "edits"),
        figures.draw_edits,
        presets=("multi-dsprites-textured",),
        systems=("efficient-morl", "genesis"),
    ),
    "figure-10": Experiment(
        "Time, memory and parameters of a pass",
        "Without refinement a pass is ten times as fast as IODINE's; with I <= 1 it is like Slot Attention's.",
        efficiency.passes,
        ("parameters", "forward_ms", "training_ms", "forward_mib", "training_mib"),
        efficiency.draw_passes,
        variants={},
    ),
}  # fmt: skip


def find(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        raise UserError(f"There is no table or figure {name!r}{nearest(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]
