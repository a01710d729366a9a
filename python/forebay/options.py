"""From a Loader's arguments to what is made of a sample, by the core and by functions behind it."""

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from forebay import _core
from forebay.checks import function, whole
from forebay.core_transforms import to_core
from forebay.devices import Normalizing
from forebay.transforms import RandomErasing, Transform

_DTYPES = {
    "uint8": _core.DType.UINT8,
    "float32": _core.DType.FLOAT32,
    "bfloat16": _core.DType.BFLOAT16,
    "float16": _core.DType.FLOAT16,
}


def dtype_name(dtype: _core.DType) -> str:
    """As Loader's dtype, and PyTorch's."""
    return next(name for name, value in _DTYPES.items() if value == dtype)


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


def split_transform(
    transform: Any,
) -> tuple[list[Transform], list[Callable[[Any], Any]]]:
    """What the core runs, and the user's functions behind it."""
    if transform is None:
        return [], []
    given = [transform] if isinstance(transform, Transform) or callable(transform) else transform
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ValueError(f"transform is {transform!r}, but must be a list of transforms")
    own: list[Any] = list(given)
    functions: list[Callable[[Any], Any]] = []
    while own and not isinstance(own[-1], Transform):
        functions.insert(0, own.pop())
        function("transform: a member", functions[0])
    return own, functions


def feed_options(
    transform: list[Transform],
    dtype: str | None,
    *,
    channels_last: bool,
    with_image: bool,
    with_file: bool,
    later: Sequence[Any],
) -> tuple[_core.FeedOptions, Normalizing | None]:
    """The core's options, as far as they say what is made of a sample; what is left to a device.

    Args:
        later: The fields whose images a device may normalise; it does not where something comes
            behind Normalize.

    Raises:
        ValueError: A transform or dtype that does not go.
    """
    options = _core.FeedOptions()
    options.files = with_file
    options.images = (
        _core.Images.NONE
        if not with_image
        else _core.Images.TENSOR
        if transform
        else _core.Images.WHOLE
    )
    if not transform:
        if dtype not in (None, "uint8"):
            raise ValueError(f"dtype is {dtype}, which goes with a transform with Normalize")
        return options, None
    options.transform, normalize = to_core(transform)
    dtype = dtype or ("uint8" if normalize is None else "float32")
    if dtype not in _DTYPES:
        raise ValueError(f"dtype is {dtype!r}, but must be one of {list(_DTYPES)}")
    if (dtype == "uint8") != (normalize is None):
        raise ValueError(
            f"dtype is {dtype}, which goes with{'out' if dtype == 'uint8' else ''} Normalize"
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
