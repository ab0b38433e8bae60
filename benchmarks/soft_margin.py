"""What the paper does not say: how its tables depend on C, and on the scaling of the features.

FOLDER holds the original files of the datasets. For every C: the largest m that Theorem var guarantees, the number of
hypotheses that hold half of the posterior mass, the test loss of the vote and the bound, means over splits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _results import make_parser, show

from pacbayes import datasets
from pacbayes.paper import aggregation
from pacbayes.paper.experiments import run_comparison, run_quasiconvexity
from pacbayes.paper.splits import ExperimentSample, load_sample, split
from pacbayes.paper.tables import HALF_MASS, LARGEST_GUARANTEED_M, TITLES

COLUMNS = ("", "features", "C", "largest m (paper)", "half the mass (paper)", "vote", "bound")


def measure(folder: Path, splits: int) -> Iterator[tuple[str, ...]]:
    """Yield a row for each dataset, way to scale and C."""
    for name in datasets.NAMES:
        scaled = load_sample(name, folder)
        raw = ExperimentSample(name, datasets.load(name, data_dir=folder).X, scaled.y)
        for features, sample in (("scaled", scaled), ("as published", raw)):
            for softness in (1.0, 10.0, 1e3, 1e6):
                aggregation.C = softness
                parts = [split(sample, number) for number in range(splits)]
                guaranteed = np.mean([run_quasiconvexity(part, 2, 0)["theorem_var"] for part in parts])
                compared = [run_comparison(part, 2, 0) for part in parts]
                half, vote, bound = (np.mean([c[key] for c in compared]) for key in ("half_mass", "vote", "bound"))
                yield (
                    TITLES[name],
                    features,
                    f"{softness:g}",
                    f"{guaranteed:.0f} ({LARGEST_GUARANTEED_M[name]})",
                    f"{half:.1f} ({HALF_MASS[name]})",
                    f"{vote:.4f}",
                    f"{bound:.4f}",
                )


def main() -> None:
    arguments = make_parser(__doc__, folder=True, splits=4).parse_args()
    rows = measure(arguments.folder, arguments.splits)
    show("soft margin", "The paper's tables by C and scaling", COLUMNS, rows)


if __name__ == "__main__":
    main()
