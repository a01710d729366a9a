"""Turns a Loader's checked options into the core's options for its feeds."""

import numpy as np

from forebay import _core
from forebay.data.dataset import Dataset
from forebay.data.decoding import view_of
from forebay.loading.mover import Normalizing, open_decoder
from forebay.loading.options import Options

# How many images' headers are tried at most to find the size of a dataset's images.
_HEADERS_MAX = 100


def feed_options(options: Options) -> tuple[_core.FeedOptions, Normalizing | None]:
    """The core's options, without the world, the global batch and the order (see EpochSource).

    Returns:
        The options, and the normalising that is left to the device that batches go to; None: the
        core normalises, or nothing is normalised.

    Raises:
        ValueError: `decode` is "gpu", and the GPU cannot be used.
        DataError: The size of the dataset's images is needed, and none of the first can be read.
    """
    out = _core.FeedOptions()
    decoder = open_decoder(options.decode, options.gpu)
    if decoder is not None:
        out.device, out.decode = decoder
    normalizing = _set_images(out, options, may_defer=options.gpu is not None and decoder is None)
    out.seed = options.seed
    out.drop_last = options.drop_last
    out.even_ranks = options.even_batches
    out.replace_bad = options.replace_bad
    out.bad_samples_max = options.bad_samples_max
    out.damaged = options.damaged
    out.transform.oriented = options.oriented
    out.threads = options.num_workers
    out.prefetch = options.prefetch_factor
    out.memory_bytes_max = options.memory_bytes_max
    out.regions = options.regions
    return out, normalizing


def _set_images(out: _core.FeedOptions, options: Options, *, may_defer: bool) -> Normalizing | None:
    """Sets what is made of each sample; returns the normalising that is left to the device."""
    recipe = options.recipe
    out.files = options.wants("file")
    if not options.wants("image"):
        out.images = _core.Images.NONE
    else:
        out.images = _core.Images.WHOLE if recipe is None else _core.Images.TENSOR
    if options.has_own_sizes and recipe is not None:
        out.images = _core.Images.OWN_SIZE
    for name in options.image_fields[1:]:
        further = options.dataset.further_images[name]
        out.add_further(name, further.images.core, further.numbers.astype(np.uint64))
    if recipe is None:
        out.tensor.dtype, out.tensor.layout = _core.DType.UINT8, _core.Layout.NHWC
        return None
    out.transform = recipe.transform
    draws_by_boxes = recipe.needs_boxes and options.wants("image")
    if options.target_fields or draws_by_boxes:
        objects = options.dataset.objects
        out.targets = None if objects is None else objects.core(options.target_fields)
    if options.wants("image") and not recipe.is_cut and not options.has_own_sizes:
        first = first_size(options.dataset, options.oriented)
        out.transform.size = _core.drawn_size(recipe.transform, first)
    out.tensor = recipe.tensor
    fields = [place for name in options.image_fields for place in options.places(name)]
    if not (may_defer and fields and recipe.ends_with_normalize) or options.has_own_sizes:
        return None
    out.tensor.dtype = _core.DType.UINT8
    mean, std = recipe.tensor.mean, recipe.tensor.std
    return Normalizing(mean, std, recipe.dtype, options.channels_last, fields)


def first_size(dataset: Dataset, oriented: bool) -> _core.Size:
    """The size in the header of a dataset's first image; if that is damaged, of the next image.

    Raises:
        DataError: None of the first _HEADERS_MAX headers can be read.
    """
    failed = None
    for number in range(min(len(dataset), _HEADERS_MAX)):
        try:
            width, height = _core.read_size(view_of(dataset.read(number), number), oriented)
        except _core.DataError as error:
            failed = failed or error
        else:
            return _core.Size(width=width, height=height)
    if failed is not None:
        raise failed
    return _core.Size(width=1, height=1)  # there are no samples
