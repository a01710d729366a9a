"""torchvision's ImageFolder and transforms.v2 in torch.utils.data.DataLoader, with Pillow."""

from collections.abc import Iterator

from lib.sides.side import BATCH, RATIO, SCALE, Data, Epoch, LoaderSide, Work
from lib.sides.torch_side import batches, transform, workers


class Torchvision(LoaderSide):
    """Decodes by Pillow, as torchvision's own decoder is not there (torch_side.py)."""

    def open(self, data: Data, work: Work, threads: int) -> Epoch:
        """Opens worker processes that stay."""
        from torch.utils.data import DataLoader
        from torchvision.datasets import ImageFolder

        dataset = ImageFolder(str(data.folder), transform(work))
        loader = DataLoader(dataset, BATCH, shuffle=True, **workers(threads))
        return lambda _: batches(loader)


def reference_crops(width: int, height: int, count: int) -> Iterator[tuple[int, int, int, int]]:
    """Left, top, width and height, in pixels, of random resized crops that torchvision draws."""
    import torch
    from torchvision.transforms import v2

    crop = v2.RandomResizedCrop(1, scale=SCALE, ratio=RATIO)
    image = [torch.empty((3, height, width), device="meta")]
    for _ in range(count):
        drawn = crop.make_params(image)
        yield drawn["left"], drawn["top"], drawn["width"], drawn["height"]
