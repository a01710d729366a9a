"""Does again by torchvision's functions what Forebay's core has drawn."""

import math
from typing import Any

import torch
from torchvision import tv_tensors
from torchvision.transforms.v2.functional import _geometry as geometry

from forebay import _core
from peer_torchvision import v2

F = v2.functional
# The actions that move what belongs to an image.
MOVING = (_core.Flip, _core.QuarterTurns, _core.Cut, _core.AffineWarp, _core.Perspective)
OF_IMAGES = (tv_tensors.BoundingBoxes, tv_tensors.KeyPoints, tv_tensors.Mask)


def again(actions: list[Any], image: Any) -> Any:
    """What torchvision's functions make of an image [3, height, width] by actions of the core's.

    Boxes, keypoints and masks as tv_tensors are moved too, but not by a Blend.
    """
    for action in actions:
        if isinstance(action, MOVING) or not isinstance(image, OF_IMAGES):
            image = _again(action, image)
    return image


def _again(action: Any, image: Any) -> Any:
    match action:
        case _core.Brightness():
            return F.adjust_brightness(image, action.factor)
        case _core.Contrast():
            return F.adjust_contrast(image, action.factor)
        case _core.Saturation():
            return F.adjust_saturation(image, action.factor)
        case _core.Hue():
            return F.adjust_hue(image, action.shift)
        case _core.Sharpness():
            return F.adjust_sharpness(image, action.factor)
        case _core.Posterize():
            return F.posterize(image, action.bits)
        case _core.Solarize():
            return F.solarize(image, action.threshold)
        case _core.Invert():
            return F.invert(image)
        case _core.Autocontrast():
            return F.autocontrast(image)
        case _core.Equalize():
            return F.equalize(image)
        case _core.Grey():
            return F.rgb_to_grayscale(image, 3)
        case _core.PermuteChannels():
            return F.permute_channels(image, list(action.order))
        case _core.Blur():
            return F.gaussian_blur(image, list(action.length), list(action.sigma))
        case _core.QuarterTurns():
            return F.rotate(image, 90 * action.count, expand=True)
        case _core.Blend():
            return _blended(action, image)
        case _core.Flip():
            image = F.horizontal_flip(image) if action.across else image
            return F.vertical_flip(image) if action.down else image
        case _core.Cut():
            return _cut(action, image)
        case _core.AffineWarp() | _core.Perspective():
            return _warped(action, image)
    raise AssertionError(action)


def _blended(action: Any, image: torch.Tensor) -> torch.Tensor:
    mix = action.own * image
    for chain in action.chains:
        mix.add_(torch.tensor(chain.weight) * again(chain.actions, image))
    return mix.to(torch.uint8)


def _cut(action: Any, image: Any) -> Any:
    names = {
        _core.Interpolation.NEAREST: "nearest",
        _core.Interpolation.NEAREST_EXACT: "nearest_exact",
        _core.Interpolation.BILINEAR: "bilinear",
        _core.Interpolation.BICUBIC: "bicubic",
    }
    kind = getattr(v2.InterpolationMode, names[action.interpolation].upper())
    if action.outside is not None:
        (width, height), viewport = action.outside.image, action.outside.viewport
        image = F.resize(image, [height, width], kind)
        return _shown(image, viewport, action.outside.border)
    image = _crop(image, action.region)
    width, height = action.resized
    return _crop(F.resize(image, [height, width], kind), action.kept)


def _is_map(image: Any) -> bool:
    """Whether it is a map of labels; masks of objects have one dimension more."""
    return isinstance(image, tv_tensors.Mask) and image.ndim == 2


def _crop(image: Any, rect: tuple[int, int, int, int]) -> Any:
    x, y, width, height = rect
    if (x, y, height, width) == (0, 0, *F.get_size(image)):
        return image
    return F.crop(image, y, x, height, width)


def _shown(image: Any, viewport: list[int], border: Any) -> Any:
    """What a viewport shows that extends beyond the sides."""
    x, y, width, height = viewport
    own_height, own_width = F.get_size(image)
    right, bottom = x + width - own_width, y + height - own_height
    padding = [max(0, side) for side in (-x, -y, right, bottom)]
    is_picture = isinstance(image, tv_tensors.Image) or type(image) is torch.Tensor
    mode = border.kind.name.lower()
    fill: Any = [float(level) for level in border.fill] if is_picture and mode == "constant" else 0
    if _is_map(image):
        fill = border.mask_fill
    image = F.pad(image, padding, fill=fill, padding_mode=mode)
    return F.crop(image, y + padding[1], x + padding[0], height, width)


def _warped(action: Any, image: Any) -> Any:
    height, width = F.get_size(image)
    canvas = getattr(action, "canvas", None) or [width, height]
    if isinstance(image, (tv_tensors.BoundingBoxes, tv_tensors.KeyPoints)):
        if canvas != [width, height]:
            angle = math.degrees(math.atan2(action.map[3], action.map[0]))
            return F.rotate(image, angle, expand=True)
        return F.perspective(image, None, None, coefficients=_coefficients(action, width, height))
    is_mask = isinstance(image, tv_tensors.Mask)
    if isinstance(action, _core.AffineWarp):
        theta = torch.tensor(action.map, dtype=torch.float32).reshape(1, 2, 3)
        grid = geometry._affine_grid(theta, width, height, *canvas)
    else:
        grid = geometry._perspective_grid(action.map, width, height, torch.float32, image.device)
    kinds = {_core.Interpolation.NEAREST: "nearest", _core.Interpolation.BILINEAR: "bilinear"}
    kind = kinds[action.options.interpolation]
    if is_mask:
        planes = image.as_subclass(torch.Tensor).reshape(-1, height, width)
        if len(planes) > 0:
            fill = [float(action.options.mask_fill)] if _is_map(image) else None
            planes = geometry._apply_grid_transform(planes, grid, "nearest", fill)
        return tv_tensors.Mask(planes.reshape(*image.shape[:-2], canvas[1], canvas[0]))
    return geometry._apply_grid_transform(image, grid, kind, action.options.fill)


def _coefficients(action: Any, width: int, height: int) -> list[float]:
    """The map as a projective one, in pixels from the top left corner."""
    if isinstance(action, _core.Perspective):
        return list(action.map)
    a, b, c, d, e, f = action.map
    x, y = width / 2, height / 2
    return [a, b, x + c - a * x - b * y, d, e, y + f - d * x - e * y, 0, 0]
