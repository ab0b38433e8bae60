"""What the paper does not say: how its tables depend on C, and on the scaling of the features.

    python benchmarks/soft_margin.py FOLDER [--splits 4]

FOLDER holds the original files of the datasets. For every C: the largest m that Theorem var guarantees, the number of
hypotheses that hold half of the posterior mass, the test loss of the vote and the bound, means over splits.
"""

from __future__ import annotations

import argparse

import numpy as np

from pacbayes import datasets
from pacbayes.paper import aggregation
from pacbayes.paper.experiments import run_comparison, run_quasiconvexity
from pacbayes.paper.splits import Sample, load_sample, split
from pacbayes.paper.tables import HALF_MASS, LARGEST_GUARANTEED_M, TITLES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--splits", type=int, default=4)
    arguments = parser.parse_args()
    print(
        "| | features | C | largest m (paper) | half the mass (paper) | vote | bound |\n"
        "|---|---|---:|---:|---:|---:|---:|"
    )
    for name in datasets.NAMES:
        scaled = load_sample(name, arguments.folder)
        raw = Sample(name, datasets.load(name, data_dir=arguments.folder).X, scaled.y)
        for features, sample in (("scaled", scaled), ("as published", raw)):
            for softness in (1.0, 10.0, 1e3, 1e6):
                aggregation.C = softness
                parts = [split(sample, number) for number in range(arguments.splits)]
                guaranteed = np.mean([run_quasiconvexity(part, 2, 0)["theorem_var"] for part in parts])
                compared = [run_comparison(part, 2, 0) for part in parts]
                half, vote, bound = (np.mean([c[key] for c in compared]) for key in ("half_mass", "vote", "bound"))
                print(
                    f"| {TITLES[name]} | {features} | {softness:g} | {guaranteed:.0f} ({LARGEST_GUARANTEED_M[name]}) "
                    f"| {half:.1f} ({HALF_MASS[name]}) | {vote:.4f} | {bound:.4f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
