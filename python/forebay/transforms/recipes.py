"""What the core makes of each image: the transform for the core, and the sample's tensor."""

from collections.abc import Sequence
from dataclasses import dataclass

from forebay import _core
from forebay.transforms.core.boxes import BoxOptions
from forebay.transforms.core.transform import draws_by_boxes, to_core
from forebay.transforms.kinds import Normalize, RandomErasing, Transform

# Loader's and PyTorch's names of the types that a sample may have.
DTYPES = {
    "uint8": _core.DType.UINT8,
    "float32": _core.DType.FLOAT32,
    "bfloat16": _core.DType.BFLOAT16,
    "float16": _core.DType.FLOAT16,
}


@dataclass(frozen=True)
class Recipe:
    """A transform and a dtype that fit together.

    Attributes:
        transform: The core's transform. If `is_cut` is false, its size must still be set.
        tensor: The sample's type and layout, and how its pixels are normalised.
        dtype: The type's name, a key of DTYPES.
        is_cut: Whether samples have one size, whatever the sizes of their images.
        draws_size: Whether samples have different sizes even if all images have the same size.
        boxes: What is done to boxes after all other transforms.
        needs_boxes: Whether a step's random draws depend on the sample's boxes.
        ends_with_normalize: Whether there is a Normalize, with nothing after it.
    """

    transform: _core.Transform
    tensor: _core.TensorOptions
    dtype: str
    is_cut: bool
    draws_size: bool
    boxes: BoxOptions
    needs_boxes: bool
    ends_with_normalize: bool


def recipe_of(
    transforms: Sequence[Transform] | None, dtype: str | None, *, channels_last: bool
) -> Recipe | None:
    """Checks that the core can run the transforms and make samples of this type.

    Args:
        transforms: What the core is to run; None: images stay as they are, and there is no recipe.
        dtype: A key of DTYPES; None: "float32" with Normalize, "uint8" without.
        channels_last: Whether samples are [height, width, 3]; else they are [3, height, width].

    Raises:
        ValueError: The core does not run these transforms, or the type does not fit them.
    """
    if transforms is None:
        if dtype not in (None, "uint8"):
            raise ValueError(f"dtype is {dtype}, which needs a transform with Normalize")
        return None
    core = to_core(transforms)
    normalize = core.normalize
    dtype = dtype or ("uint8" if normalize is None else "float32")
    if dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype!r}, but must be one of {list(DTYPES)}")
    if (dtype == "uint8") != (normalize is None):
        raise ValueError(
            f"dtype is {dtype}, which needs a transform with{'out' if dtype == 'uint8' else ''} "
            "Normalize (or torchvision's ToTensor or ToDtype) in Forebay's core"
        )
    return Recipe(
        transform=core.transform,
        tensor=tensor_options(normalize, dtype, channels_last=channels_last),
        dtype=dtype,
        is_cut=core.is_cut,
        draws_size=core.draws_size,
        boxes=core.boxes,
        needs_boxes=draws_by_boxes(transforms),
        ends_with_normalize=(
            normalize is not None and not any(isinstance(one, RandomErasing) for one in transforms)
        ),
    )


def tensor_options(
    normalize: Normalize | None, dtype: str, *, channels_last: bool
) -> _core.TensorOptions:
    """The core's description of a sample's tensor.

    Args:
        normalize: How pixels are normalised; None: they stay bytes.
        dtype: A key of DTYPES.
        channels_last: Whether the tensor is [height, width, 3]; else it is [3, height, width].
    """
    tensor = _core.TensorOptions()
    tensor.dtype = DTYPES[dtype]
    tensor.layout = _core.Layout.NHWC if channels_last else _core.Layout.NCHW
    if normalize is not None:
        tensor.mean, tensor.std = list(normalize.mean), list(normalize.std)
    return tensor
