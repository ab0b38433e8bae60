"""Parameters of tests that try many cases of one thing."""

import pytest


def sweep(cases, quick):
    """Return parameters of a test: the cases at the positions `quick` as they are, all others marked as slow."""
    return [
        case if k in quick else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for k, case in enumerate(cases)
    ]
