"""Which distances between explanations can be trusted? The two tests of appendix F, over every registered measure."""

from __future__ import annotations

from pathlib import Path

from veracity.recipe import Scale, recipe
from veracity.studies.distance_check import DistanceCheck


@recipe("distance-check", reference="Fel et al. 2022, appendix F, Figures 6 and 7")
def distance_check(folder: Path, scale: Scale) -> DistanceCheck:
    """Whether every registered distance grows as a spot moves away and as noise grows: seconds at every scale.

    Paper and small: 100 maps of 32 x 32 pixels along each way, 50 noisy copies at each of 21 levels. Smoke: 25 and 10. The
    paper moves one spot from the left corner to the right; here it also moves along the diagonal and as a disc with nothing
    around it, since a correlation's magnitude calls an inverted map equal, and most distances stop growing once nothing
    overlaps. The paper reports that all pass and prints no numbers to stand beside.
    """
    steps, repeats = (25, 10) if scale is Scale.SMOKE else (100, 50)
    return DistanceCheck(steps=steps, repeats=repeats)
