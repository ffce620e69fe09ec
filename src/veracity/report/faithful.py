"""The figures of scores that follow a path: distortions by level, samples, and curves."""

from __future__ import annotations

from veracity.report.chance import RANDOM
from veracity.report.figures.alignment import alignment_data, alignment_sentences, draw_alignment
from veracity.report.figures.calibration import calibration_data, calibration_sentences, draw_calibration
from veracity.report.figures.chart import legend
from veracity.report.figures.curves import curves_data, curves_sentences, draw_curves
from veracity.report.figures.ranking import RankingData
from veracity.report.figures.scatter import draw_scatter, scatter_data
from veracity.report.kinds import score_of
from veracity.report.measured import curves, distortions, shape_of, track
from veracity.report.phrases import say, sentences
from veracity.report.plot import Plot, explained, sign, signs
from veracity.report.reading import Reading

DOT = '<circle class="dot" r="4.2"/>'


def random_controls(ranking: RankingData) -> list[str]:
    """The controls that draw their maps at random."""
    return [row.explainer for row in ranking.controls if row.explainer.startswith(RANDOM)]


def path_plots(reading: Reading, score: str, ranking: RankingData) -> list[Plot]:
    """Both distortions by level (Figure 8) and by sample (Figure 3), of a score that measured them."""
    own = score_of(reading.manifest, score)
    found = distortions(reading.run.series, score, own)
    if not found:
        return []
    units = own is not None and own.measure is not None and own.measure.in_map_units and not getattr(own, "normalise", False)
    paths = alignment_data(found, reading.models, explained(ranking), random_controls(ranking), in_map_units=units)
    samples = scatter_data(found, reading.models, explained(ranking))
    if not paths.explainers:
        return []
    scale = " The scale across is logarithmic." if paths.across.log else ""
    first = Plot(
        title="Model against explanation, level by level",
        sentences=tuple(alignment_sentences(paths)),
        note=(
            "Each point is a level of the path, from weak to strong, as a mean over samples and draws. Across: how far the model's "
            f"output has moved. Up: how far the explanation has. Faithful explanations rise throughout.{scale}"
        ),
        keys=legend(reading.models)
        + signs(
            sign('<line class="curve" x1="-12" x2="12"/><circle class="dot" r="4.2"/>', "the explainer"),
            sign('<line class="reference" x1="-12" x2="12"/>', "random explanations"),
            sign('<line class="behind" x1="-12" x2="12"/>', "the other explainers"),
        ),
        drawing=draw_alignment(paths),
    )
    levels = [sign(f'<g class="l{place}">{DOT}</g>', f"level {level}") for place, level in enumerate(samples.levels, start=1)]
    second = Plot(
        title="Model against explanation, sample by sample",
        sentences=tuple(sentences(say("scatter.overlap", curves=len(samples.explainers), levels=len(samples.levels)))),
        note=f"Each point is a sample, as a mean over draws; lines enclose half and nine tenths of a level's points. Axes as above.{scale}",
        keys=signs(*levels),
        drawing=draw_scatter(samples),
    )
    return [first, second] if samples.explainers else [first]


def curve_plots(reading: Reading, score: str, ranking: RankingData) -> list[Plot]:
    """The mean prediction along the order of each explanation; for randomised layers, the mean similarity."""
    own = score_of(reading.manifest, score)
    levels = [values.shape[2] for one in reading.run.series if one.score == score for values in one.measured.quantities.values()]
    line = track(own, shape_of(reading.manifest), max(levels, default=0))
    if line is None:
        return []
    found = curves(reading.run.series, score, line.quantity)
    data = curves_data(found, line, reading.models, explained(ranking), random_controls(ranking), reading.confidence)
    if not data.explainers:
        return []
    return [
        Plot(
            title="Step by step",
            sentences=tuple(curves_sentences(data)),
            note=f"Across: {line.across}. Up: {line.up}, over samples, with its {reading.level} interval.",
            keys=legend(reading.models)
            + signs(
                sign('<rect class="band" x="-12" y="-5" width="24" height="10"/><line class="curve" x1="-12" x2="12"/>', "the explainer"),
                sign('<line class="bound" x1="-12" x2="12"/>', "random explanations"),
                sign('<line class="behind" x1="-12" x2="12"/>', "the other explainers"),
            ),
            drawing=draw_curves(data),
        )
    ]


def calibration_plot(reading: Reading) -> Plot | None:
    """How strong perturbations of the models had to become."""
    data = calibration_data(reading.manifest.get("calibrations") or (), reading.models)
    if not data.found:
        return None
    return Plot(
        title="Where the paths end",
        sentences=tuple(calibration_sentences(data)),
        note=(
            "A path leads from the model as it is to the smallest perturbation at which its predictions are kept no more often than by "
            "chance. Across: the strength of the perturbation, on a logarithmic scale. Up: the share of predictions that are kept."
        ),
        keys=signs(
            sign('<line class="curve" x1="-12" x2="12"/><circle class="dot" r="4.2"/>', "agreement, and the end that was chosen"),
            sign('<line class="reference" x1="-12" x2="12"/>', "chance"),
            sign('<line class="equal" x1="-12" x2="12"/>', "chance and its tolerance"),
        ),
        drawing=draw_calibration(data),
    )
