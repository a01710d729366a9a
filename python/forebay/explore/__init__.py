"""Explores many configurations of a flow as one job: what they share is computed once.

`from forebay.explore import …` or `from forebay import explore as fx`; docs/explore.md is its page.
"""

from importlib.util import find_spec

if find_spec("cloudpickle") is None:
    raise ImportError("forebay.explore needs cloudpickle: pip install 'forebay[explore]'")

from forebay.explore.built_in import Features, Images, evaluate, features, train
from forebay.explore.driver import NoRoomError, StageError
from forebay.explore.flow import Flow, choose
from forebay.explore.samplers import sampler
from forebay.explore.selectors import Selector, above, asha, bottom, first, median, top, within
from forebay.explore.settings import Schedule, explore, linear, log, schedule
from forebay.explore.stages import epochs, report, seed, stage
from forebay.explore.study import Branch, Study, TooManyBranchesError, alone, run

__all__ = [
    "Branch",
    "Features",
    "Flow",
    "Images",
    "NoRoomError",
    "Schedule",
    "Selector",
    "StageError",
    "Study",
    "TooManyBranchesError",
    "above",
    "alone",
    "asha",
    "bottom",
    "choose",
    "epochs",
    "evaluate",
    "explore",
    "features",
    "first",
    "linear",
    "log",
    "median",
    "report",
    "run",
    "sampler",
    "schedule",
    "seed",
    "stage",
    "top",
    "train",
    "within",
]
