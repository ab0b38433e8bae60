"""From rows and a target to votes with their certificates, in the steps of Theorem PBaggregation.

Rows are held out, subsamples drawn, hypotheses trained, each validated on the rows outside its subsample, weighted by
minimising the bound, and the vote is tested on the rows that were held out.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from pacbayes import __version__
from pacbayes._fingerprint import IncomparableError, digest, package_versions
from pacbayes._losses import Loss, NumberLoss
from pacbayes._parallel import count_threads, rows_per_block, run_in_background
from pacbayes._settings import is_whole
from pacbayes._validation import Array, prefix_errors
from pacbayes.certificate import (
    FIT_ASSUMPTIONS,
    Certificate,
    FamilyWeight,
    Objective,
    certify,
    resolve_objective,
    validate_delta,
)
from pacbayes.exceptions import HypothesisError
from pacbayes.fitting._checkpoint import Checkpoint
from pacbayes.fitting._evaluation import TestResult, evaluate_shares, evaluate_vote, stack_vote
from pacbayes.fitting._groups import Groups
from pacbayes.fitting._racing import DropRule
from pacbayes.fitting._rows import SampleRows
from pacbayes.fitting._training import Trained, Trainer, concatenate
from pacbayes.fitting._votes import FitSettings, FittedVotes, Vote
from pacbayes.pools import Hypotheses, Pool, as_pool, join_families, keep_device, probe_hypotheses, release
from pacbayes.posterior.gibbs import GibbsCurve
from pacbayes.rows import RowSummary, TrainingRows
from pacbayes.sampling import PROBE, Partition, SamplingPlan, Split, Subsamples, derive_entropy, split_holdouts, stream
from pacbayes.tasks import Task

# Rows that hypotheses predict at once when they are probed, as they do when they are tested.
_PROBED_TOGETHER = 4096

# A checkpoint holds results that depend on these settings.
_CHECKPOINTED = (
    *("subsample_size", "subsamples", "loss", "n_hypotheses", "delta", "objective", "voting", "n_candidates"),
    *("prior", "racing"),
)


@dataclass(frozen=True)
class VotePlan:
    """What a vote is going to be made from."""

    split: Split
    rest: SampleRows  # the rows that make it, without those that the pool reserved
    shared: Any  # what all its hypotheses share, as `Pool.prepare` computed it
    subsamples: Subsamples
    prior: ArrayLike | None  # None if it is uniform
    loss: Loss  # by which hypotheses are weighted

    def of_family(self, name: str) -> tuple[Subsamples, Any, int]:
        """Return the training sets of a family, what its hypotheses share, and its seed."""
        if not name:
            return self.subsamples, self.shared, self.split.entropy
        return self.subsamples.by_family()[name], self.shared[name], derive_entropy(self.split.entropy, name)


@dataclass(frozen=True)
class FitContext:
    """What all votes of a fit have in common."""

    pool: Pool
    task: Task
    loss: Loss
    settings: FitSettings
    n_votes: int  # that share delta, those of other candidates included
    continued: bool  # whether hypotheses are added to those of an earlier fit
    groups: Groups | None = None  # of all rows, whose errors are to be bounded
    max_error: float | None = None  # that was declared for answered points

    def find_objective(self, *, tested: bool) -> Objective:
        """Return what the weights are to make small, given whether held-out rows test the vote."""
        return resolve_objective(self.settings.objective, self.settings.voting, tested=tested)

    def stacks(self, *, tested: bool) -> bool:
        """Return whether weights are chosen by the loss of the vote, rather than by losses of hypotheses."""
        return self.settings.voting in ("majority", "mean") and self.find_objective(tested=tested) == "stacking"


def fit_votes(
    rows: SampleRows,
    target: NDArray[Any],
    pool: Pool,
    task: Task,
    settings: FitSettings,
    continued: FittedVotes | None = None,
    groups: Groups | None = None,
    max_error: float | None = None,
) -> FittedVotes:
    """Train, weigh and test one or several competing votes.

    Parameters
    ----------
    rows : SampleRows
        The sample, in memory or in a source (`open_rows`).
    target : ndarray of shape (n,)
        Its target, as the task encodes it.
    pool : Pool
        The hypothesis space.
    task : Task
        What is to be predicted.
    settings : FitSettings
        How. Where they name no estimator, the pool is what is kept of it.
    continued : FittedVotes, optional
        A fit of the same rows and settings, whose hypotheses are kept: only those that it lacks are trained.
    groups : Groups, optional
        Groups of the rows: held-out rows bound the error of each.
    max_error : float, optional
        Error among answered points that held-out rows are to prove, by the threshold that answers most.
    """
    loss = task.resolve_loss(settings.loss)
    if settings.estimator is None:
        settings = replace(settings, estimator=pool)
    rows = rows.with_target(task, target)
    pool = pool.usable(rows.sample, loss)
    holdout = resolve_holdout(pool, settings, loss, len(rows))
    if groups is not None and holdout is None:
        raise ValueError(
            "groups need held-out rows, and this fit has none: give holdout a share, or the groups of new points to "
            "certify(X, y, groups=...)"
        )
    if max_error is not None and task.numeric:
        raise ValueError("max_error must be None where numbers are predicted: predict_interval has a proved coverage")
    if max_error is not None and (holdout is None or settings.voting not in ("majority", "uniform")):
        raise ValueError(
            "max_error needs held-out rows and a vote: give holdout a share, and voting 'majority' or 'uniform'"
        )
    if holdout is not None and settings.voting in ("majority", "uniform"):
        task = task.deciding_by(loss)
    entropy = _draw_entropy(settings.random_state) if continued is None else continued.entropy
    rows, entropy = _open_checkpoint(rows, pool, task, settings, holdout, entropy)
    try:
        splits = _split(holdout, len(rows), entropy, settings)
        n_votes = len(splits) * settings.n_candidates
        fit = FitContext(pool, task, loss, settings, n_votes, continued is not None, groups, max_error)
        validate_delta(settings.delta, fit.n_votes)
        plans, rows, summary = rows.load(_plan_vote(fit, rows, split) for split in splits)
        if continued is not None:
            summary = rows.summarize()[0] if summary is None else summary
            _check_continued(summary, target, continued)
        votes, tested, training_rows, row_digest = _make_votes(fit, rows, plans, summary, continued)
    finally:
        release()
    # Their bounds hold all at once: the smallest is a bound as well.
    winner = min(range(len(votes)), key=lambda k: task.rank(votes[k].certificate))
    votes[winner] = evaluate_shares(votes[winner], rows, tested[winner], winner)
    names = None if rows.columns is None else np.array(rows.columns, dtype=object)
    digests = (row_digest, _digest_target(target))
    about = (rows.sample.code_book, rows.sample.n_columns, names, *digests, rows.column_ranges())
    return FittedVotes(tuple(votes), winner, entropy, task, settings, training_rows, *about)


def _split(holdout: Any, n: int, entropy: int, settings: FitSettings) -> list[Split]:
    """Draw the rows to hold out, and say what is wrong where the default cannot hold out any."""
    try:
        return split_holdouts(holdout, n, entropy)
    except ValueError as error:
        if not isinstance(settings.holdout, str):
            raise
        raise ValueError(
            f"X must hold enough rows to train on, to validate and to test, got {n}: a few hundred are needed for a "
            "bound that says something"
        ) from error


def _make_votes(
    fit: FitContext,
    rows: SampleRows,
    plans: Iterable[VotePlan],
    summary: RowSummary | None,
    continued: FittedVotes | None,
) -> tuple[list[Vote], list[TestResult | None], TrainingRows, str]:
    """Train votes, each certified while the next is trained; return them, their tests, and what recognises the rows."""
    begun = _begin_training(fit, plans)
    first = next(begun)
    with _background(fit, rows, first[0]) as call:
        futures = []
        for k, (plan, trainers) in enumerate(chain([first], begun)):
            trained = _train_vote(fit, trainers, plan, None if continued is None else continued.votes[k])
            digests = call(digest_vote, fit, trained)
            batch_rows = max(trainer.batch_rows for trainer in trainers)
            futures.append(call(_certify_vote, fit, rows, plan, trained, k, digests, batch_rows))
        summary = rows.summarize()[0] if summary is None else summary
        training_rows = TrainingRows(summary)
        votes, tested = zip(*(future.result() for future in futures), strict=True)
        return list(votes), list(tested), training_rows, summary.exact_digest


def _check_continued(summary: RowSummary, target: NDArray[Any], fitted: FittedVotes) -> None:
    """Raise ValueError unless rows and target are those of a fit."""
    changed = [] if summary.exact_digest == fitted.row_digest else ["X"]
    changed += [] if _digest_target(target) == fitted.target_digest else ["y"]
    if changed:
        raise ValueError(
            f"hypotheses are added on the same sample, but {' and '.join(changed)} differ from that of the fit: "
            "the losses of the hypotheses that are there would be wrong"
        )


def _digest_target(target: NDArray[Any]) -> str:
    """Return a digest of an encoded target: the same for codes in few bytes, as those of a source are, and in many."""
    target = np.asarray(target)
    return digest(target.astype(np.int64, copy=False) if target.dtype.kind in "iu" else target)


def _draw_entropy(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
    if is_whole(random_state):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def resolve_holdout(pool: Pool, settings: FitSettings, loss: Loss, n: int) -> Any:
    """Return the rows to hold out of n, None for none."""
    holdout = settings.holdout
    given = settings.subsamples is not None and not hasattr(settings.subsamples, "split")
    if isinstance(holdout, str):
        needless = loss.on_probabilities or given or (settings.voting == "best" and not loss.needs_test)
        holdout = None if needless else pool.default_holdout(n, numeric=isinstance(loss, NumberLoss))
    if holdout is None and loss.needs_test:
        raise ValueError(
            "holdout must not be None without y_range=(low, high): errors of numbers are bounded by rows that were "
            "held out, or by a range of the target that is known beforehand"
        )
    if holdout is not None and loss.on_probabilities:
        # What the vote's probabilities would be is not defined.
        raise ValueError(f"holdout must be None for the loss {loss.name!r}, which is not a loss of labels")
    if holdout is not None and given:
        raise ValueError(f"holdout must be None where subsamples are row numbers of all rows, got {holdout!r}")
    return holdout


def _open_checkpoint(
    rows: SampleRows, pool: Pool, task: Task, settings: FitSettings, holdout: Any, entropy: int
) -> tuple[SampleRows, int]:
    """Return rows whose workers store results, if there is a checkpoint, and the seed: that of the fit that goes on."""
    if settings.checkpoint is None:
        return rows, entropy
    sample: Any = rows.sample
    fingerprints = {"X": sample.source.fingerprint, "y": digest([sample.codes, sample.classes])}
    fingerprints["the version of pacbayes"] = __version__
    values = {"estimator": pool, "holdout": holdout} | {name: getattr(settings, name) for name in _CHECKPOINTED}
    values |= task.parameters()  # losses of numbers are in units of a declared range
    for name, value in values.items():
        try:
            fingerprints[name] = digest(value)
        except IncomparableError as error:
            raise ValueError(f"checkpoint must be None with this {name}: {error}") from error
    seed = None if settings.random_state is None else entropy
    checkpoint = Checkpoint(Path(settings.checkpoint), fingerprints, seed, package_versions(values))
    entropy = checkpoint.begin(entropy)
    return replace(rows, workers=replace(rows.workers, checkpoint=checkpoint)), entropy


def _plan_vote(fit: FitContext, rows: SampleRows, split: Split) -> VotePlan:
    """Choose the rows of one vote, and the training sets of its hypotheses."""
    sample, shared = fit.pool.prepare(split.take_rows(rows.sample), split.entropy)
    rest, settings = rows.with_sample(sample).arrange(split.entropy), fit.settings
    try:
        subsamples = fit.pool.draw_subsamples(make_sampling_plan(settings, split), len(sample), sample.n_columns)
    except ValueError as error:
        if split.rows is None:
            raise
        left = f"holdout={settings.holdout!r} leaves {split.rows.size} of {len(rows)} rows"
        raise ValueError(f"{error} ({left})") from error
    if subsamples.n != len(rest):
        raise ValueError(f"subsamples must be of the {len(rest)} rows of the sample, got {subsamples.n}")
    prior = choose_prior(fit.pool, settings, subsamples, split)
    return VotePlan(split, rest, shared, subsamples, prior, fit.loss.adapt(sample.codes))


def make_sampling_plan(settings: FitSettings, split: Split) -> SamplingPlan:
    """Return how the training sets of a vote are to be chosen."""
    chosen = (settings.n_hypotheses, settings.subsample_size, settings.subsamples)
    return SamplingPlan(*chosen, split.entropy, tested=split.held_out is not None)


def _begin_training(fit: FitContext, plans: Iterable[VotePlan]) -> Iterator[tuple[VotePlan, list[Trainer]]]:
    """Yield the plan of each vote, and what trains each of its families. A device begins with the next vote before."""
    begun: deque[tuple[VotePlan, list[Trainer]]] = deque()
    for k, plan in enumerate(plans):
        rest, trainers, on_device = plan.rest, [], False
        trains_all = rest.in_memory and fit.settings.racing != "training" and not fit.continued
        for name, pool in fit.pool.members():
            subsamples, shared, entropy = plan.of_family(name)
            drawn = subsamples.cached() if rest.in_memory else subsamples
            first = plan.subsamples.families[name].start
            trainer = Trainer(pool, rest, shared, drawn, plan.loss, entropy, k, name, first)
            starts = trains_all and pool.uses_device(rest.sample, subsamples)
            trainers.append(trainer.start() if starts else trainer)
            on_device |= starts
        begun.append((plan, trainers))
        if len(begun) > 1 or not on_device:
            yield begun.popleft()
    yield from begun


def _background(fit: FitContext, rows: SampleRows, plan: VotePlan) -> Any:
    """Return threads to certify a vote in while the next one is trained, given the plan of one of them."""
    if not (fit.pool.shares_rows and rows.in_memory) or fit.settings.verbose:  # progress is shown one after another
        return run_in_background(threads=0)
    if fit.pool.uses_device(plan.rest.sample, plan.subsamples):  # and cores have nothing else to do
        return run_in_background(threads=2, prepare=keep_device())
    return run_in_background(threads=1 if count_threads(fit.settings.n_jobs) > 1 else 0)


def _train_vote(fit: FitContext, trainers: list[Trainer], plan: VotePlan, previous: Vote | None) -> Trained:
    """Train and validate the hypotheses of one vote; those of a previous one are kept."""
    subsamples, settings = plan.subsamples, fit.settings
    races, m, rule = settings.racing and settings.voting != "uniform", len(subsamples), None
    if races or plan.prior is not None:
        log_prior = GibbsCurve(np.zeros(m), 1.0, plan.prior).log_prior  # says what is wrong with a prior
        rule = DropRule(log_prior, subsamples.n_validation, settings.delta / fit.n_votes) if races else None
    totals, seen, families = np.zeros(m), np.zeros(m, dtype=np.intp), {}
    if previous is not None:  # of one family
        known = len(previous.hypotheses)
        totals[:known], seen[:known], families[""] = previous.totals, previous.seen, previous.hypotheses
    for trainer in trainers:
        with prefix_errors(HypothesisError, trainer.family and f"family {trainer.family!r}"):
            if previous is None:
                leave_out_kinds = rule is not None and settings.racing == "training"
                families[trainer.family] = trainer.run(totals, seen, rule, leave_out_kinds=leave_out_kinds)
            elif known < m:  # without a rule: none of the others were dropped
                families[""] = concatenate([previous.hypotheses, trainer.run(totals, seen, n_known=known)])
    hypotheses = join_families(families).keep_training_points(plan.rest.sample)
    if plan.split.held_out is None or settings.voting not in ("majority", "uniform"):
        hypotheses = hypotheses.by_labels()  # what is proved without a test, or drawn, is about labels
    fit.pool.check_hypotheses(hypotheses)
    return Trained(hypotheses, subsamples, totals, seen)


def choose_prior(pool: Pool, settings: FitSettings, subsamples: Subsamples, split: Split) -> ArrayLike | None:
    """Return the prior over hypotheses, None if it is uniform.

    A hypothesis with few validation points has a loose bound. Where nothing but the bound decides, hypotheses on larger
    subsamples therefore get less of the prior.
    """
    if settings.prior is not None:
        return copy.deepcopy(settings.prior)  # type: ignore[no-any-return]
    equal = subsamples.sizes.min() == subsamples.sizes.max()
    uniform = equal or split.held_out is not None or settings.voting == "uniform"
    return pool.weigh_prior(subsamples, None if uniform else subsamples.n_validation.astype(np.float64))


def _certify_vote(
    fit: FitContext, rows: SampleRows, plan: VotePlan, trained: Trained, k: int, digests: Any, batch_rows: int
) -> tuple[Vote, TestResult | None]:
    """Weight the hypotheses of one vote, probe them, and test it on its held-out rows."""
    split, loss = plan.split, plan.loss
    is_tested = split.held_out is not None
    certificate, rho = weigh(fit, trained, plan.prior, loss, tested=is_tested)
    if fit.stacks(tested=is_tested):
        rho = stack_vote(Vote(fit.task, *trained, rho, plan.prior, certificate, split), plan.rest, k)
        certificate, _ = weigh(fit, trained, plan.prior, loss, tested=is_tested, posterior=rho)
    certificate = replace(certificate, digests={**certificate.digests, **digests.result()})
    source = rows if rows.in_memory else plan.rest
    most = min(_PROBED_TOGETHER, rows_per_block(fit.task.width))
    probe_hypotheses(trained.hypotheses, rho, *source.probe_points(), most, loss, stream(split.entropy, 0, PROBE))
    vote = Vote(fit.task, *trained, rho, plan.prior, certificate, split)
    vote, tested = evaluate_vote(vote, rows, plan.rest, loss, k, batch_rows, fit.groups, fit.max_error)
    vote.hypotheses.leave_device()
    families = describe_families(vote.hypotheses, vote.subsamples, rho)
    return replace(vote, certificate=vote.certificate.revise(families=families)), tested


def weigh(
    fit: FitContext,
    trained: Trained,
    prior: ArrayLike | None,
    loss: Loss,
    *,
    tested: bool,
    posterior: Array | None = None,
) -> tuple[Certificate, Array]:
    """Return the certificate of a vote before its test, and the weights: those given, or those that losses lead to."""
    settings, subsamples = fit.settings, trained.subsamples
    objective = fit.find_objective(tested=tested)
    if objective == "stacking" and posterior is None:
        objective = "relative" if fit.task.numeric else "lambda"
    stated = [*FIT_ASSUMPTIONS, *subsamples.assumptions, *fit.pool.assumptions(), *fit.task.assumptions()]
    known = dict(fit.pool.members())  # without families that the sample is nothing for
    stated += [f"left-out:{name}" for name, _ in as_pool(settings.estimator).members() if name not in known]
    choices = {
        "own-prior": settings.prior is not None,
        "holdout-splitter": hasattr(settings.holdout, "split") and not isinstance(settings.holdout, str | Partition),
        f"candidates:{settings.n_candidates}": settings.n_candidates > 1,
        "size-decided": fit.continued,
        "groups-declared": fit.groups is not None,
    }
    stated += [code for code, is_made in choices.items() if is_made]
    return certify(
        trained.losses,
        subsamples.n_validation,
        n_votes=fit.n_votes,
        dropped_loss=trained.dropped_loss,
        delta=settings.delta,
        prior=prior,
        objective=objective,
        posterior=posterior,
        voting=settings.voting,
        loss=loss.name,
        strict=fit.pool.is_strict,
        assumptions=[*stated, *trained.hypotheses.assumptions()],
    )


def describe_families(hypotheses: Hypotheses, subsamples: Subsamples, rho: Array) -> tuple[FamilyWeight, ...]:
    """Return what each of several families has in a vote."""
    families = {name: own for name, own in subsamples.families.items() if name}
    return tuple(
        FamilyWeight(
            name, len(own), min(1.0, float(rho[own.start : own.stop].sum())), hypotheses.take(np.asarray(own)).vote_by
        )
        for name, own in families.items()
    )


def digest_vote(fit: FitContext, trained: Trained) -> dict[str, str]:
    """Return digests of what is certified: the settings, and the hypotheses but for those that were dropped."""
    dropped, hypotheses = np.isnan(trained.losses), trained.hypotheses
    if dropped.any():
        hypotheses = hypotheses.take(np.flatnonzero(~dropped))
    names = ("voting", "objective", "delta", "holdout", "n_candidates", "prior", "loss", "racing")
    about = [*(getattr(fit.settings, name) for name in names), fit.pool, hypotheses.classes, trained.subsamples]
    about += [fit.task.parameters()] if fit.task.parameters() else []
    about += [] if fit.task.decision is None else [fit.task.decision]
    return {"hypotheses": digest(hypotheses.fingerprint(), code=True), "settings": digest(about, code=True)}
