"""What certificates rest on: machine codes, which files hold and programs compare, and the sentences made from them.

A sentence may be improved at any time. A code is part of the file format: it never changes its meaning.
"""

from __future__ import annotations

from collections.abc import Collection

# What has to be true of every fit. The classifier sees the sample only: it cannot know what was done before.
_FIT = {
    "independent-sample": "the sample is independent and identically distributed, and so are the points to predict",
    "features-from-elsewhere": (
        "features were not computed from this sample: no scaler, imputer, selector or other pipeline step saw its rows"
    ),
    "settings-from-elsewhere": (
        "settings were not chosen by looking at this sample: no grid search, no best of several seeds, bounds or scores"
    ),
}

# What has to be true of losses that are given.
_LOSSES = {
    "losses-on-other-points": (
        "each loss was measured on independent, identically distributed points that did not shape its hypothesis"
    ),
    "prior-from-elsewhere": "the prior and the settings were chosen without looking at those points",
}

# How training sets may have been chosen: a certificate of a fit names one of these.
_SUBSAMPLES = {
    "subsamples-random": "subsamples were chosen without looking at features or labels (by construction)",
    "subsamples-splitter": "the caller made the splitter of the subsamples without looking at features or labels",
    "subsamples-given": "the caller chose the subsamples without looking at features or labels",
    "trained-elsewhere": "the classifiers were trained without the validation points",
}

_WHOLE = "the whole sample, validation points included, as in the paper: the theorem does not cover this"

# What the theorem does not allow. A certificate with one of these is not strict.
_DEPARTURES = {
    "widths-from-sample": f"kernel widths came from {_WHOLE}",
    "widths-and-scaling-from-sample": f"kernel widths and scaling came from {_WHOLE}",
    "declared-not-strict": "the caller declared the setting not strict: the theorem does not cover this",
}

# What makes the points of a test others than those of the promise: then the test is not covered, either.
_TEST_DEPARTURES = {
    "rows-in-time": (
        "rows follow each other in time: they are not independent, and later ones may come from another distribution, "
        "so that no bound covers them"
    ),
    "weights-estimated": (
        "the weights were estimated, and stand for a ratio of densities that is not known: the theorem does not cover "
        "this"
    ),
}

# The code of an assumption in somebody's own words, which follow a colon.
STATED = "stated"

_RESERVED = "reserved points, used in no validation set (by construction)"

# What has to be true for some settings.
_OTHERS = {
    "learner-from-elsewhere": (
        "the base learner was configured without looking at the sample, and nothing in it was trained before, unless "
        "another assumption says so"
    ),
    "learner-pretrained": (
        "a base learner holds a model that was trained before, which shapes hypotheses as their subsamples do: that "
        "model has not seen these rows, and the learner was configured without looking at them"
    ),
    "predicts-by-row": (
        "every hypothesis predicts a point from that point alone, whatever else is predicted with it (some were probed "
        "on some points)"
    ),
    "widths-from-subsample": "kernel widths came from each subsample alone (by construction)",
    "widths-and-scaling-from-subsample": "kernel widths and scaling came from each subsample alone (by construction)",
    "widths-from-reserved": f"kernel widths came from {_RESERVED}",
    "widths-and-scaling-from-reserved": f"kernel widths and scaling came from {_RESERVED}",
    "learned-from-subsample": (
        "all that shapes a hypothesis, scaling and the encoding of categories included, came from its subsample alone "
        "(by construction)"
    ),
    "table-columns-known": (
        "which columns of the table hold numbers, categories or texts is taken as known before the sample was drawn"
    ),
    "columns-known": (
        "which columns of the table hold numbers, categories or texts is taken as known before the sample was drawn; "
        "missing numbers were replaced by means of each subsample alone, and categories compared for equality only, so "
        "that it does not matter which of them the sample holds (by construction)"
    ),
    "file-columns-known": (
        "which columns hold numbers, text or gaps, which are left out, and what the target holds, numbers or which "
        "classes, was read from the file and is taken as known before the sample was drawn"
    ),
    "targets-known": (
        "rows whose target is missing were left out: the points to predict are like those whose target is known"
    ),
    "range-declared": "all targets are in the range from {}, which was declared without looking at the sample",
    "own-prior": "the prior was chosen without looking at the sample",
    "left-out": "the family {} cannot take such columns, classes or losses, and was left out",
    "holdout-splitter": "the caller made the splitter of held-out rows without looking at features or labels",
    "candidates": "of {} settings that were decided on beforehand and share delta, one was chosen by its bound",
    "seed-decided": (
        "the seed of the randomised tail was decided on before the points of the test were seen, and not by the random "
        "number that it leads to"
    ),
    "size-decided": "the number of hypotheses was not chosen by looking at the bound",
    "groups-declared": (
        "the groups were declared without looking at errors: in which group a point is depends on that point alone"
    ),
    "training-weighted": (
        "rows counted differently in training, by weights that depend on nothing but the row itself; losses, tests and "
        "what is proved are of points as they come, unweighted"
    ),
    "expected-costs": (
        "the vote predicts the class whose expected cost under its shares is smallest, which need not be the one with "
        "the largest share (by construction)"
    ),
    "max-error-declared": "the largest error among answered points was declared before the held-out rows were tested",
    "shifted": (
        "the points to predict come from another distribution instead, whose density relative to that of the new "
        "points is proportional to the weights; that no point has a weight above {} was declared, and the seed of "
        "which points are kept decided on, without looking at these"
    ),
    "weights-known": "the weights are known, and not estimated from the new points",
    "new-points": "the new points are independent of the sample and had no part in making or choosing the classifier",
    STATED: "{}",
}

# The sentences by code. Where one has a gap, what fills it follows the code, after a colon.
ASSUMPTIONS = {**_FIT, **_LOSSES, **_SUBSAMPLES, **_DEPARTURES, **_TEST_DEPARTURES, **_OTHERS}
FIT_ASSUMPTIONS, LOSS_ASSUMPTIONS = tuple(_FIT), tuple(_LOSSES)

# Without what follows a colon: those that only certificates about a shifted distribution state.
SHIFT_ASSUMPTIONS = ("shifted", "weights-known", "weights-estimated")


def is_code(text: str) -> bool:
    """Return whether a text is the code of an assumption, with what fills the gap of its sentence if there is one."""
    code, _, filling = text.partition(":")
    return code in ASSUMPTIONS and ("{}" in ASSUMPTIONS[code]) == bool(filling) and text != f"{code}:"


def encode_assumption(text: str) -> str:
    """Return the code of an assumption: a code as it is, anything else as a statement in somebody's own words.

    Examples
    --------
    >>> encode_assumption("own-prior"), encode_assumption("the rows were shuffled")
    ('own-prior', 'stated:the rows were shuffled')
    """
    return text if is_code(text) else f"{STATED}:{text}"


def describe_assumption(code: str) -> str:
    """Return the sentence of a code.

    Examples
    --------
    >>> describe_assumption("own-prior"), describe_assumption("stated:the rows were shuffled")
    ('the prior was chosen without looking at the sample', 'the rows were shuffled')
    """
    name, _, filling = code.partition(":")
    return ASSUMPTIONS[name].format(filling)


def is_covered(codes: Collection[str]) -> bool:
    """Return whether none of the assumptions departs from the theorem."""
    return _DEPARTURES.keys().isdisjoint(codes) and is_test_covered(codes)


def is_test_covered(codes: Collection[str]) -> bool:
    """Return whether no assumption departs from what tests rest on, to which departures of the fit do not matter."""
    return _TEST_DEPARTURES.keys().isdisjoint(codes)


def find_missing(codes: Collection[str], *, of_fit: bool) -> list[str]:
    """Return, in words, the assumptions that a certificate, of a fit or of losses alone, does not state and has to."""
    missing = [describe_assumption(code) for code in FIT_ASSUMPTIONS if code not in codes]
    if _SUBSAMPLES.keys().isdisjoint(codes):
        missing.append("how the subsamples were chosen")
    if missing and not of_fit:
        missing = [describe_assumption(code) for code in LOSS_ASSUMPTIONS if code not in codes]
    return missing
