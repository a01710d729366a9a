"""Forebay: image data from where it lies to batches for PyTorch, as fast as the machine allows.

PyTorch is optional: with PyTorch batches are tensors, without it NumPy arrays.
"""

# The core comes first: on a processor that is too old it raises an error, while NumPy's import may
# end the process.
from forebay._core import DataError, StoredFile  # isort: split

from forebay import transforms
from forebay.data.cache import Cache
from forebay.data.concatenation import concat
from forebay.data.dataset import Dataset
from forebay.data.decoding import decode
from forebay.loading.batch_decoding import BatchDecoder, DecodedBatch
from forebay.loading.loader import Loader
from forebay.loading.monitor import BottleneckWarning
from forebay.loading.prep import Prep
from forebay.preview.sheet import show

__all__ = [
    "BatchDecoder",
    "BottleneckWarning",
    "Cache",
    "DataError",
    "Dataset",
    "DecodedBatch",
    "Loader",
    "Prep",
    "StoredFile",
    "concat",
    "decode",
    "show",
    "transforms",
]
