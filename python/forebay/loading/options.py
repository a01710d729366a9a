"""A Loader's arguments, checked: the only place that looks at them as the user wrote them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

from forebay import _core
from forebay.checks import flag, function, seconds, whole
from forebay.data.dataset import Dataset, without_labels
from forebay.data.decoding import check_damaged, check_orientation
from forebay.devices import check_device
from forebay.loading.compatibility import unused
from forebay.loading.mover import NO_GPU_TO_PIN_FOR, can_pin, check_decode
from forebay.loading.prep import Prep, check_prep
from forebay.loading.target_checks import check_targets, moving_fields
from forebay.loading.tv_types import check_tv_tensors
from forebay.ranks import check_world, own_world, threads_of
from forebay.transforms.core.transform import to_core
from forebay.transforms.mixing import Mixing, check_mixing
from forebay.transforms.pipelines import split
from forebay.transforms.recipes import Recipe, recipe_of
from forebay.transforms.user_functions import UserFunction

# Fields that the core's batches have by themselves, whatever the dataset's columns are.
_CORE_FIELDS = ("image", "file", "label", "index")
# Arguments for opening a dataset, the same as Dataset's.
_OF_DATASETS = ("storage_options", "index_cache", "cache", "cache_bytes")
# Arguments that a copy of a Loader does not get: of the generator only the seed counts, the dataset
# has its own options, and the others do nothing. They need not be picklable.
NOT_COPIED = (
    "generator",
    *_OF_DATASETS,
    "worker_init_fn",
    "multiprocessing_context",
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """A Loader's checked options. Names that Loader's arguments have mean the same here.

    Attributes:
        batch_size: Samples of a batch on this rank; None: a batch_sampler chooses the batches.
        draws: Samples that an epoch draws by the dataset's weights; None: nothing is drawn.
        asked_world: Rank and world size as they were given; None: ranks.own_world() tells them.
        world: Rank and world size now.
        fields: The fields of a batch, in their order.
        names: The names of the fields in a batch that is a dict; None: batches are tuples.
        recipe: What the core makes of each image; None: images stay as they are.
        functions: What Python runs on each image after that, in turn.
        target: The function of each label, or None.
        collate: The function of a batch's samples, or None.
        batch: The function of a whole batch, or None.
        mixing: How whole batches are mixed, or None.
        device: A torch.device; None: batches stay in this machine's memory.
        gpu: The device, if the core may put its images there directly; else None.
        oriented: Whether images are mirrored and turned by their orientation tags.
        warnings: The texts of warnings for the user.
    """

    dataset: Dataset
    batch_size: int | None
    shuffle: bool
    sampler: Any
    batch_sampler: Any
    draws: int | None
    repeats: int
    drop_last: bool
    even_batches: bool
    seed: int
    asked_world: tuple[int, int] | None
    world: tuple[int, int]
    fields: list[str]
    names: list[str] | None
    recipe: Recipe | None
    functions: list[UserFunction]
    target: UserFunction | None
    collate: UserFunction | None
    batch: UserFunction | None
    mixing: Mixing | None
    channels_last: bool
    device: Any
    gpu: Any
    decode: str
    pin_memory: bool
    num_workers: int
    prefetch_factor: int
    timeout: float
    replace_bad: bool
    damaged: _core.Damaged
    oriented: bool
    bad_samples_max: int
    memory_bytes_max: int
    regions: _core.Regions
    progress: bool
    prep: Prep | None
    pad_targets: bool
    tv_tensors: bool
    warnings: tuple[str, ...]

    def wants(self, field: str) -> bool:
        """Whether batches have this field."""
        return field in self.fields

    @property
    def image_fields(self) -> list[str]:
        """The fields that are images: the samples' own, then further ones; each once."""
        if not self.wants("image"):
            return []
        further = self.dataset.further_images
        return ["image", *(name for name in further if self.wants(name))]

    def places(self, field: str) -> list[Any]:
        """Where batches have this field: indexes of the tuple, or names of the dict."""
        names: Sequence[Any] = self.names or range(len(self.fields))
        return [name for name, one in zip(names, self.fields, strict=True) if one == field]

    @property
    def target_fields(self) -> set[str]:
        """The fields that are targets, which move with the images."""
        return moving_fields(self.fields, self.dataset)

    @property
    def has_own_sizes(self) -> bool:
        """Whether each image has a size of its own."""
        if self.recipe is None:
            return True
        return not self.recipe.is_cut and (self.recipe.draws_size or bool(self.target_fields))

    @property
    def uses_images(self) -> bool:
        """Whether mixing or one of the user's functions uses the images in Python."""
        return bool(self.functions or self.collate or self.batch or self.mixing)

    @property
    def runs_python(self) -> bool:
        """Whether making a batch takes time in Python."""
        return self.uses_images or self.target is not None


def check(arguments: Mapping[str, Any]) -> Options:
    """Checks all arguments of a Loader.

    Args:
        arguments: By name, without `self`.

    Raises:
        ValueError: An option is invalid, or options do not fit together; the message names them.
        FileNotFoundError, DataError: The same as Dataset's.
    """
    given = SimpleNamespace(**arguments)
    dataset = _dataset(given)
    warnings: list[str] = []
    made = (
        {"dataset": dataset}
        | _order(given, dataset, warnings)
        | _running(given, warnings)
        | _content(given, dataset, warnings)
    )
    on_bad = _on_bad(given.on_bad)
    made["replace_bad"] = made["shuffle"] if on_bad is None else on_bad == "replace"
    return Options(**made, warnings=(*unused(arguments), *warnings))


def _dataset(given: SimpleNamespace) -> Dataset:
    how = {name: getattr(given, name) for name in _OF_DATASETS}
    if not isinstance(given.dataset, Dataset):
        return Dataset(given.dataset, **how)
    for name, value in how.items():
        if value is not None:
            raise ValueError(f"{name}: give it with a path; a Dataset already has its own")
    return given.dataset


def _order(given: SimpleNamespace, dataset: Dataset, warnings: list[str]) -> dict[str, Any]:
    """The options that say which samples a rank gets, and in which batches."""
    shuffle = flag("shuffle", bool(given.shuffle) if given.shuffle is None else given.shuffle)
    drop_last = flag("drop_last", given.drop_last)
    batch_size = _batch_size(given, shuffle=shuffle, drop_last=drop_last)
    chooses = given.sampler is not None or given.batch_sampler is not None
    asked_world = (0, 1) if chooses else check_world(given.rank, given.world_size)
    world = asked_world or own_world()
    batch = whole("batch_size x world_size", (batch_size or 1) * world[1], 1, 2**32 - 1)
    draws = _draws(given, dataset, shuffle=shuffle)
    for name in ("sampler", "batch_sampler"):
        one = getattr(given, name)
        if one is not None and not hasattr(one, "__iter__"):
            raise ValueError(f"{name} is {one!r}, but must be an iterable of numbers")
    if drop_last and not chooses and draws is None and 0 < len(dataset) < batch:
        warnings.append(
            f"forebay.Loader: {dataset.path} has {len(dataset)} samples, fewer than one batch of "
            f"all ranks ({batch}), and drop_last leaves them out: epochs have no batches"
        )
    return {
        "batch_size": batch_size,
        "shuffle": shuffle,
        "sampler": given.sampler,
        "batch_sampler": given.batch_sampler,
        "draws": draws,
        "repeats": _repeats(given, chooses or draws is not None),
        "drop_last": drop_last,
        "even_batches": (
            shuffle if given.even_batches is None else flag("even_batches", given.even_batches)
        ),
        "seed": _seed(given.seed, given.generator),
        "asked_world": asked_world,
        "world": world,
    }


def _batch_size(given: SimpleNamespace, *, shuffle: bool, drop_last: bool) -> int | None:
    """Samples of a batch on this rank; None with a batch_sampler."""
    has_rank = given.rank is not None or given.world_size is not None
    if given.batch_sampler is None:
        if given.sampler is not None and (shuffle or has_rank):
            raise ValueError(
                "sampler: it chooses the order and this rank's samples itself; leave out shuffle, "
                "rank and world_size"
            )
        return whole("batch_size", given.batch_size, 1, _core.BATCH_MAX)
    size = given.batch_size
    is_default = size is None or (type(size) is int and size == 1)
    if not is_default or shuffle or drop_last or given.sampler is not None or has_rank:
        raise ValueError(
            "batch_sampler: it chooses the batches itself; leave out batch_size, shuffle, sampler, "
            "drop_last, rank and world_size"
        )
    return None


def _draws(given: SimpleNamespace, dataset: Dataset, *, shuffle: bool) -> int | None:
    """Samples that an epoch draws by the dataset's weights; None if nothing is drawn."""
    chooses = given.sampler is not None or given.batch_sampler is not None
    weights = dataset.weights
    if chooses or not shuffle or weights is None:
        if given.samples_per_epoch is not None:
            raise ValueError("samples_per_epoch: it needs a dataset with weights and shuffle=True")
        return None
    if not weights.any():
        raise ValueError("dataset: all its samples have the weight 0; nothing can be drawn")
    if given.samples_per_epoch is None:
        return len(dataset)
    return whole("samples_per_epoch", given.samples_per_epoch, 0)


def _repeats(given: SimpleNamespace, chooses: bool) -> int:
    """How many times in a row each sample comes."""
    repeats = whole("repeats", given.repeats, 1, 1024)
    if repeats > 1 and chooses:
        raise ValueError(
            "repeats: it chooses an epoch's samples; leave out sampler, batch_sampler and weights"
        )
    return repeats


def _seed(seed: Any, generator: Any) -> int:
    if seed is None and generator is not None:
        if not hasattr(generator, "initial_seed"):
            raise ValueError(f"generator is {generator!r}, but must be a torch.Generator")
        seed = generator.initial_seed()
    return 0 if seed is None else whole("seed", seed, 0, 2**64 - 1)


def _on_bad(on_bad: Any) -> str | None:
    if on_bad not in (None, "replace", "skip"):
        raise ValueError(f"on_bad is {on_bad!r}, but must be 'replace' or 'skip'")
    return on_bad


def _regions(regions: Any) -> _core.Regions:
    if regions not in ("auto", "never"):
        raise ValueError(f"regions is {regions!r}, but must be 'auto' or 'never'")
    return _core.Regions.AUTO if regions == "auto" else _core.Regions.NEVER


def _running(given: SimpleNamespace, warnings: list[str]) -> dict[str, Any]:
    """The options that say how the work is done."""
    prefetch = 2 if given.prefetch_factor is None else given.prefetch_factor
    if flag("progress", given.progress) and find_spec("tqdm") is None:
        raise ValueError("progress: the bar needs the package tqdm: pip install tqdm")
    pin_memory = flag("pin_memory", given.pin_memory)
    if pin_memory and not can_pin():
        pin_memory = False
        warnings.append(NO_GPU_TO_PIN_FOR)
    prep = check_prep(given.prep)
    if prep is not None and given.batch_sampler is not None:
        warnings.append(
            "forebay.Loader: prep: prep servers cannot yet prepare the batches of a batch_sampler, "
            "so this machine prepares all batches"
        )
    return {
        "num_workers": threads_of(given.num_workers),
        "prefetch_factor": whole("prefetch_factor", prefetch, 1, _core.PREFETCH_MAX),
        "timeout": seconds("timeout", given.timeout),
        "damaged": check_damaged(given.damaged),
        "oriented": check_orientation(given.orientation),
        "bad_samples_max": whole("bad_samples_max", given.bad_samples_max, 0),
        "memory_bytes_max": whole("memory_bytes_max", given.memory_bytes_max, 1),
        "regions": _regions(given.regions),
        "pin_memory": pin_memory,
        "progress": given.progress,
        "prep": prep,
    }


def _content(given: SimpleNamespace, dataset: Dataset, warnings: list[str]) -> dict[str, Any]:
    """The options that say what a batch consists of, and where it goes."""
    channels_last = flag("channels_last", given.channels_last)
    pipeline = split(given.transform, channels_last=channels_last)
    if pipeline.in_python is not None:
        warnings.append(f"forebay.Loader: transform: {pipeline.in_python}")
    fields, names = _fields(given.fields, dataset)
    pad_targets = flag("pad_targets", given.pad_targets)
    types = check_tv_tensors(given.tv_tensors, pads=pad_targets, channels_last=channels_last)
    mixing = given.batch_transform if isinstance(given.batch_transform, Mixing) else None
    _check_further(fields, dataset, given.prep)
    if pipeline.functions and "image" not in fields:
        raise ValueError(
            f"transform: it has functions of images, but 'image' is not among the fields {fields}"
        )
    if mixing is not None:
        is_whole = not pipeline.functions and (
            pipeline.core is None or to_core(pipeline.core).draws_size
        )
        collates = given.collate_fn is not None
        _check_mixing(mixing, fields, dataset, is_whole=is_whole, collates=collates)
    _check_target(given.target_transform, fields)
    if "label" in fields and (message := without_labels(dataset)) is not None:
        warnings.append(message)
    if pipeline.core is None and moving_fields(fields, dataset):  # the core gives the targets
        recipe = recipe_of([], given.dtype, channels_last=not types)
    else:
        recipe = recipe_of(pipeline.core, given.dtype, channels_last=channels_last)
    oriented = check_orientation(given.orientation)
    check_targets(fields, dataset, pipeline, mixing, oriented=oriented)
    device = check_device(given.device)
    uses_images = pipeline.functions or given.collate_fn or given.batch_transform
    gpu = None if uses_images or recipe is None or "image" not in fields else device
    return {
        "fields": fields,
        "names": names,
        "recipe": recipe,
        "functions": pipeline.functions,
        "target": _user_function("target_transform", given.target_transform),
        "collate": _user_function("collate_fn", given.collate_fn),
        "batch": None if mixing else _user_function("batch_transform", given.batch_transform),
        "mixing": mixing,
        "channels_last": channels_last,
        "pad_targets": pad_targets,
        "tv_tensors": types,
        "device": device,
        "gpu": gpu,
        "decode": _decode(given, gpu),
    }


def _decode(given: SimpleNamespace, gpu: Any) -> str:
    # Prep servers prepare batches for host memory.
    if given.prep is not None and given.decode == "auto":
        return "cpu"
    return check_decode(given.decode, gpu)


def _fields(fields: Any, dataset: Dataset) -> tuple[list[str], list[str] | None]:
    """The fields of a batch, and their names if it is a dict."""
    if isinstance(fields, str) or not isinstance(fields, Sequence | Mapping):
        raise ValueError(f"fields is {fields!r}, but must be a sequence or a mapping of names")
    wanted = list(fields.values() if isinstance(fields, Mapping) else fields)
    moving, further = moving_fields(wanted, dataset), dataset.further_images
    for field in wanted:
        if field not in (*_CORE_FIELDS, *moving, *further) and field not in dataset.columns:
            others = [] if dataset.objects is None else dataset.objects.fields
            known = [*_CORE_FIELDS[:2], *further, *others, *dataset.columns]
            why = " (the annotations have no outlines)" if field == "masks" and others else ""
            raise ValueError(f"fields: there is no {field!r}{why}; there are {known}")
    if not wanted:
        raise ValueError("fields is empty: a batch would have nothing")
    return wanted, list(fields) if isinstance(fields, Mapping) else None


def _check_further(fields: list[str], dataset: Dataset, prep: Any) -> None:
    """Raises ValueError if batches cannot have the samples' further images."""
    further = [field for field in fields if field in dataset.further_images]
    if further and "image" not in fields:
        raise ValueError(f"fields: {further[0]!r} needs 'image', which is not among {fields}")
    if further and prep is not None:
        raise ValueError(
            f"prep: prep servers cannot yet prepare further images of samples, here {further[0]!r}"
        )


def _check_mixing(
    mixing: Mixing, fields: list[str], dataset: Dataset, *, is_whole: bool, collates: bool
) -> None:
    if not ("image" in fields and "label" in fields):
        raise ValueError(
            f"batch_transform: it mixes images and labels, but the fields are {fields}"
        )
    if is_whole:
        raise ValueError("batch_transform: images of different sizes cannot be mixed")
    if collates:
        raise ValueError("batch_transform: it cannot mix what a collate_fn makes")
    labels = dataset.given_labels
    check_mixing(mixing, None if labels is None or labels.is_class else labels.values.shape[1:])


def _check_target(target: Any, fields: list[str]) -> None:
    if target is None:
        return
    if "label" not in fields:
        raise ValueError(f"target_transform: 'label' is not among the fields {fields}")
    if not callable(target):
        raise ValueError(f"target_transform is {target!r}, but must be a function, or a type")


def _user_function(name: str, own: Callable[..., Any] | None) -> UserFunction | None:
    if own is None:
        return None
    if name != "target_transform":  # which may also be a type, such as float
        function(name, own)
    return UserFunction(own, name)
