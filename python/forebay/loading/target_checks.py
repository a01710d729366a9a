"""Which fields of a batch are targets, and whether they can move with the images as they should."""

from collections.abc import Sequence
from typing import Any

from forebay.data.annotations import MOVING
from forebay.data.dataset import Dataset
from forebay.transforms.augmentations import AugMix
from forebay.transforms.core.transform import members
from forebay.transforms.kinds import RandomCrop
from forebay.transforms.mixing import Mixing
from forebay.transforms.pipelines import Pipeline
from forebay.transforms.sizes import Pad
from forebay.transforms.timm_policies import TimmAugment, TimmOps

# These come from annotations, but do not move.
_STILL = ("image_id", "captions")


def moving_fields(fields: Sequence[Any], dataset: Dataset) -> set[str]:
    """The fields among these that are targets.

    Packed targets are read only if one of the fields has the name of a target.
    """
    wanted = {field for field in fields if field in MOVING}
    if not wanted or dataset.objects is None:
        return set()
    return wanted & set(dataset.objects.fields)


def check_targets(
    fields: list[str],
    dataset: Dataset,
    pipeline: Pipeline,
    mixing: Mixing | None,
    *,
    oriented: bool,
) -> None:
    """Checks that the targets among the fields can move with their images.

    Args:
        fields: The fields of a batch.
        dataset: Whose targets they are.
        pipeline: What is done to each image.
        mixing: How whole batches are mixed; None: they are not.
        oriented: Whether images are shown as their orientation tags say.

    Raises:
        ValueError: Nothing can move them, or a transform would leave them where they are.
    """
    known = moving_fields(fields, dataset)
    moving = [one for one in fields if one in known]
    if not moving:
        return
    if "image" not in fields:
        raise ValueError(f"fields: {moving[0]!r} needs 'image', which is not among {fields}")
    if pipeline.core is None and pipeline.in_python is None and pipeline.names:
        raise ValueError(
            f"fields: {moving[0]!r} moves with the images that Forebay's transforms make; give "
            f"transform=[Resize(...)], or another transform; {pipeline.names[0]} gets only the "
            "image"
        )
    if pipeline.in_python is not None:
        raise ValueError(
            f"transform: {pipeline.in_python}, where {moving[0]!r} cannot move with the image"
        )
    places = [one for one in moving if one not in _STILL]
    if places:
        _check_blends(places[0], pipeline, mixing)
        objects = dataset.objects
        assert objects is not None
        if places != ["mask"] and objects.columns:
            _check_borders(places[0] if places[0] != "mask" else places[1], pipeline)
        if objects.drawn_on == "shown" and not oriented:
            raise ValueError(
                "annotations_as: it is 'shown', so images must be shown as their orientation tags "
                "say, too; give the Loader orientation='apply'"
            )


def _check_blends(field: str, pipeline: Pipeline, mixing: Mixing | None) -> None:
    """Raises ValueError for what shows several images, or several forms of one, in one place."""
    for one in members(pipeline.core or ()):
        is_timms = isinstance(one, TimmAugment) and one.config.startswith("augmix")
        is_timms = is_timms or (isinstance(one, TimmOps) and one.kind == "augmix")
        if is_timms or isinstance(one, AugMix):
            raise ValueError(
                f"transform: AugMix blends several distortions of an image, and {field!r} cannot "
                "be in several places; leave it out"
            )
    if mixing is not None:
        raise ValueError(
            f"batch_transform: it mixes images, and {field!r} of one image says nothing about a "
            "mixture; leave out one of them"
        )


def _check_borders(field: str, pipeline: Pipeline) -> None:
    """Raises ValueError for borders that show objects again, which have only one box each."""
    for one in members(pipeline.core or ()):
        if isinstance(one, (RandomCrop, Pad)) and one.padding_mode != "constant":
            raise ValueError(
                f"transform: {type(one).__name__}'s padding_mode is {one.padding_mode!r}, which "
                f"shows objects at the sides again, without boxes of their own: for {field!r} it "
                "must be 'constant'"
            )
