"""What a run folder says, read without a model; and what two of them say together."""

from veracity.results.comparison import compared, differences_in_making
from veracity.results.joined import joined
from veracity.results.over_random import over_random
from veracity.results.quadrants import quadrants
from veracity.results.rows import Row
from veracity.results.run import Result
from veracity.results.selection import Fits, Lasso, Listed, Within, select
from veracity.results.series import Series, WorstPair
from veracity.results.visualised import Visualised
