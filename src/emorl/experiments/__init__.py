"""EXPERIMENTS: every table and figure of the paper, and ours, by name.

Each is the file of its name. What they share: `base` says what an experiment is, `scales` how large it is and what is
trained for it, `runner` and `queue` train and measure, `results` is the format of all results, and `tables` and
`documents` put them on pages.
"""

from __future__ import annotations

from emorl.experiments import (
    appendix_b,
    blender,
    clevr,
    comparison,
    datasets,
    denormals,
    exploration,
    explorer,
    figure_2,
    figure_3,
    figure_5,
    figure_6,
    figure_7,
    figure_8,
    figure_9,
    figure_10,
    glossary,
    levers,
    photographs,
    processes,
    scenes,
    seeds,
    speed,
    table_1,
    table_2,
    table_3,
    tfrecord,
    tries,
    zoo,
)
from emorl.experiments.base import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    # The paper's
    "table-1": table_1.EXPERIMENT,
    "table-2": table_2.EXPERIMENT,
    "table-3": table_3.EXPERIMENT,
    "figure-2": figure_2.EXPERIMENT,
    "figure-3": figure_3.EXPERIMENT,
    "figure-5": figure_5.EXPERIMENT,
    "figure-6": figure_6.EXPERIMENT,
    "figure-7": figure_7.EXPERIMENT,
    "figure-8": figure_8.EXPERIMENT,
    "figure-9": figure_9.EXPERIMENT,
    "figure-10": figure_10.EXPERIMENT,
    "appendix-b": appendix_b.EXPERIMENT,
    # Learning on a CPU
    "seeds": seeds.EXPERIMENT,
    "comparison": comparison.EXPERIMENT,
    "blender": blender.EXPERIMENT,
    "photographs": photographs.EXPERIMENT,
    "levers": levers.EXPERIMENT,
    "exploration": exploration.EXPERIMENT,
    "tries": tries.EXPERIMENT,
    "zoo": zoo.EXPERIMENT,
    "glossary": glossary.EXPERIMENT,
    # Costs
    "speed": speed.EXPERIMENT,
    "processes": processes.EXPERIMENT,
    "denormals": denormals.EXPERIMENT,
    "explorer": explorer.EXPERIMENT,
    # Data
    "datasets": datasets.EXPERIMENT,
    "scenes": scenes.EXPERIMENT,
    "clevr": clevr.EXPERIMENT,
    "tfrecord": tfrecord.EXPERIMENT,
}
