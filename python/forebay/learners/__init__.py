"""Several learners on one device: small batches, and all cores of a processor.

`attach` makes K learners of a model, each of which trains its own weights on its own batches, and
keeps their average, the central model (Crossbow's synchronous model averaging). C++ code
(src/train/learners/averaging/) computes the averages.
"""

from forebay.learners.attaching import attach
from forebay.learners.session import Learners

__all__ = ["Learners", "attach"]
