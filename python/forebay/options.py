"""From a Loader's arguments to the core's options: what is made of a sample."""

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

from forebay import _core
from forebay.checks import whole
from forebay.core_transforms import is_cut, to_core
from forebay.dataset import Dataset
from forebay.decoding import view_of
from forebay.devices import Normalizing
from forebay.transforms import RandomErasing, Transform

# The most images whose headers are tried for their size.
_FIRST_MAX = 100

_DTYPES = {
    "uint8": _core.DType.UINT8,
    "float32": _core.DType.FLOAT32,
    "bfloat16": _core.DType.BFLOAT16,
    "float16": _core.DType.FLOAT16,
}


def dtype_name(dtype: _core.DType) -> str:
    """Like Loader's dtype, and PyTorch's."""
    return next(name for name, value in _DTYPES.items() if value == dtype)


def first_size(dataset: Dataset) -> _core.Size:
    """The size of a dataset's first image, by its header; of a damaged one's successor instead.

    Raises:
        DataError: None of the first ones can be read.
    """
    failed = None
    for number in range(min(len(dataset), _FIRST_MAX)):
        try:
            width, height = _core.read_size(view_of(dataset.read(number), number))
        except _core.DataError as error:
            failed = failed or error
        else:
            return _core.Size(width=width, height=height)
    if failed is not None:
        raise failed
    return _core.Size(width=1, height=1)  # there are no samples


def seed_of(seed: int | None, generator: Any) -> int:
    """The seed by Loader's arguments.

    Raises:
        ValueError: It is no whole number from 0 to 2^64 - 1, or `generator` is no torch.Generator.
    """
    if seed is None and generator is not None:
        if not hasattr(generator, "initial_seed"):
            raise ValueError(f"generator is {generator!r}, but must be a torch.Generator")
        seed = generator.initial_seed()
    return 0 if seed is None else whole("seed", seed, 0, 2**64 - 1)


def seconds(name: str, value: Any) -> float:
    """A time from 0 on.

    Raises:
        ValueError: It is none.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 <= float(value) < math.inf:
        raise ValueError(f"{name} is {value!r}, but must be a number of seconds, at least 0")
    return float(value)


def feed_options(
    transform: list[Transform] | None,
    dtype: str | None,
    *,
    channels_last: bool,
    with_image: bool,
    with_file: bool,
    later: Sequence[Any],
    dataset: Dataset | None,
) -> tuple[_core.FeedOptions, Normalizing | None]:
    """The core's options, as far as they say what is made of a sample; what is left to a device.

    Args:
        transform: What the core runs; None: images as they are.
        dtype: Like Loader's.
        channels_last: Like Loader's.
        with_image: Whether batches have images.
        with_file: Whether batches have image files.
        later: The fields whose images a device may normalise; it does not where something comes
            after Normalize.
        dataset: Its first image has the size of all where the transform does not cut them; None:
            it does.

    Raises:
        ValueError: A transform or dtype that does not go.
    """
    options = _core.FeedOptions()
    options.files = with_file
    options.images = (
        _core.Images.NONE
        if not with_image
        else _core.Images.TENSOR
        if transform is not None
        else _core.Images.WHOLE
    )
    if transform is None:
        if dtype not in (None, "uint8"):
            raise ValueError(f"dtype is {dtype}, which goes with a transform with Normalize")
        return options, None
    made, normalize = to_core(transform)
    if dataset is not None and with_image and not is_cut(transform):
        made.size = _core.resized_size(made.crop.resize, first_size(dataset))
    options.transform = made
    dtype = dtype or ("uint8" if normalize is None else "float32")
    if dtype not in _DTYPES:
        raise ValueError(f"dtype is {dtype!r}, but must be one of {list(_DTYPES)}")
    if (dtype == "uint8") != (normalize is None):
        raise ValueError(
            f"dtype is {dtype}, which goes with{'out' if dtype == 'uint8' else ''} Normalize "
            "(or torchvision's ToTensor or ToDtype) in Forebay's core"
        )
    tensor = _core.TensorOptions()
    tensor.dtype = _DTYPES[dtype]
    tensor.layout = _core.Layout.NHWC if channels_last else _core.Layout.NCHW
    normalizing = None
    if normalize is not None:
        tensor.mean, tensor.std = list(normalize.mean), list(normalize.std)
        if later and not isinstance(transform[-1], RandomErasing):
            normalizing = Normalizing(tensor.mean, tensor.std, dtype, channels_last, later)
            tensor.dtype = _core.DType.UINT8
    options.tensor = tensor
    return options, normalizing
