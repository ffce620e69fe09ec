"""The figures that a run gets if it holds what they need: each with its title, its words and its drawing."""

from __future__ import annotations

from veracity.report.faithful import curve_plots, path_plots
from veracity.report.figures.chart import legend
from veracity.report.figures.convergence import convergence_data, convergence_sentences, draw_convergence
from veracity.report.figures.ranking import RankingData, ranking_data
from veracity.report.figures.relaxation import draw_relaxation, relaxation_data, relaxation_sentences
from veracity.report.figures.sensitivity import SENSITIVITY, compared_score, draw_sensitivity, sensitivity_data, sensitivity_sentences
from veracity.report.figures.symmetrisation import draw_symmetrisation, symmetrisation_data
from veracity.report.figures.training import draw_training, training_data, training_sentences
from veracity.report.kinds import in_map_units
from veracity.report.phrases import piece
from veracity.report.plot import Plot, explained, sign, signs
from veracity.report.reading import Reading
from veracity.report.robust import robust_plots
from veracity.report.sampling import drawn
from veracity.report.verdict import KEPT, SYMMETRY_SCORES
from veracity.report.view import explanation_scores
from veracity.report.wording import GUIDELINES, word_of


def plots(reading: Reading, score: str, ranking: RankingData) -> tuple[Plot, ...]:
    """Every further figure of one score of explanations."""
    made = [convergence_plot(reading, score, ranking)]
    if score in SYMMETRY_SCORES:
        made = [
            symmetrisation_plot(reading, score),
            relaxation_plot(reading, score, ranking),
            training_plot(reading, score, ranking),
            *made,
        ]
    along = [*path_plots(reading, score, ranking), *curve_plots(reading, score, ranking)]
    near = robust_plots(reading, score, explained(ranking))
    return tuple(plot for plot in (*along, *near, *made) if plot is not None)


def symmetrisation_plot(reading: Reading, score: str) -> Plot | None:
    """The score against the number of transforms (Figure 4)."""
    data = symmetrisation_data(reading.rows, score, reading.models, reading.spec.get("explainers"))
    if not data.families:
        return None
    note = (
        f"Up: {word_of(score)}, with its {reading.level} interval. Across: over how many random transforms an explanation was "
        f"averaged; none is the explainer as it is. {KEPT} counts as reached where the lower end of the interval does so."
    )
    return Plot(
        title="Explanations made symmetric",
        sentences=(piece("{}", GUIDELINES[4]), piece("It makes sense only for a model that is itself invariant.")),
        note=note,
        keys=legend(reading.models),
        drawing=draw_symmetrisation(data),
    )


def relaxation_plot(reading: Reading, score: str, ranking: RankingData) -> Plot | None:
    """The score against the model's own invariance (Figure 5)."""
    data = relaxation_data(reading.rows, score, reading.models, ranking.order, without=reading.steps)
    if not data.explainers:
        return None
    return Plot(
        title="Models that are less invariant",
        sentences=(*relaxation_sentences(data, reading.models), piece("{}", GUIDELINES[5])),
        note=f"Across: the model's invariance. Up: {word_of(score)}. Bars are {reading.level} intervals of both.",
        keys=legend(reading.models)
        + signs(
            sign('<line class="equal" x1="-12" x2="12"/>', "explanation as invariant as its model"),
            sign('<line class="behind" x1="-12" x2="12"/>', "the other explainers"),
        ),
        drawing=draw_relaxation(data, reading.models),
    )


def training_plot(reading: Reading, score: str, ranking: RankingData) -> Plot | None:
    """The score over the steps of a training (Figure 3d)."""
    data = training_data(reading.rows, score, reading.steps, ranking.order)
    if not data.explainers:
        return None
    return Plot(
        title="During training",
        sentences=tuple(training_sentences(data)),
        note=f"Across: the step of the training. Up: {word_of(score)}, with its {reading.level} interval.",
        keys=signs(
            sign('<line class="curve" x1="-12" x2="12"/><circle class="dot" r="4.2"/>', "explanations"),
            sign('<line class="reference" x1="-12" x2="12"/>', "the model's own invariance"),
            sign('<line class="behind" x1="-12" x2="12"/>', "the other explainers"),
        ),
        drawing=draw_training(data),
    )


def convergence_plot(reading: Reading, score: str, ranking: RankingData) -> Plot | None:
    """How the Monte Carlo estimates settle (Figure 7)."""
    kinds = drawn(reading.manifest, score)
    if not kinds:
        return None
    data = convergence_data(reading.run.draws(score), kinds, score, reading.models, explained(ranking), reading.confidence)
    if not data.explainers:
        return None
    note = (
        "Across: draws a sample. Up: the mean over these samples, each plot on a scale of its own. Explainers that score 1 have settled "
        "from the first draw on and are left out."
    )
    return Plot(
        title="Were there enough draws?",
        sentences=tuple(convergence_sentences(data, reading.level)),
        note=note,
        keys=legend(reading.models)
        + signs(
            sign('<rect class="band" x="-12" y="-5" width="24" height="10"/>', f"{reading.level} interval over draws"),
            sign('<line class="bound" x1="-12" x2="12"/>', "Hoeffding's bounds, where they fit in"),
        ),
        drawing=draw_convergence(data),
    )


def sensitivity_plot(reading: Reading) -> Plot | None:
    """Sensitivity against the symmetry score, sample by sample (Figure 8)."""
    score = compared_score(explanation_scores(reading.rows))
    if not score:
        return None
    frames = explained(ranking_data(reading.rows, score, reading.models))
    sensitivity, symmetry = reading.run.samples(SENSITIVITY), reading.run.samples(score)
    data = sensitivity_data(sensitivity, symmetry, score, reading.models, frames, reading.confidence)
    if not data.explainers:
        return None
    units = "in the explanation's own units" if in_map_units(reading.manifest, SENSITIVITY) else "as a share of the explanation"
    return Plot(
        title="Sensitivity against symmetry",
        sentences=tuple(sensitivity_sentences(data)),
        note=(
            f"Each point is a sample. Across: its largest change under small noise, {units}. Up: its "
            f"{word_of(score)}. Intervals of r are {reading.level} ones."
        ),
        keys=legend(reading.models),
        drawing=draw_sensitivity(data),
    )
