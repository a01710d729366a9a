"""Forebay: image data from where it lies to batches for PyTorch, as fast as the machine allows.

PyTorch is not needed to import this; with it, batches are tensors, else NumPy arrays.
"""

from forebay import transforms
from forebay._core import DataError, StoredFile
from forebay.batch_decoding import BatchDecoder, DecodedBatch
from forebay.cache import Cache
from forebay.concatenation import concat
from forebay.dataset import Dataset
from forebay.decoding import decode
from forebay.loader import Loader
from forebay.monitor import BottleneckWarning
from forebay.prep import Prep
from forebay.showing import show

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
