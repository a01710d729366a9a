"""The loaders that bench/peers.py compares, a file for each, with one interface (side.py)."""

from lib.sides.dali import Dali, DaliCrop
from lib.sides.ffcv import FfcvQ90, FfcvQ96, FfcvRaw, FfcvResized
from lib.sides.forebay import Forebay, ForebayAvx2, ForebayInPlace, ForebayResized
from lib.sides.litdata import LitData
from lib.sides.opencv import OpenCv
from lib.sides.side import LoaderSide
from lib.sides.spdl import Spdl
from lib.sides.streaming import Streaming
from lib.sides.torchvision import Torchvision
from lib.sides.turboloader import TurboLoader
from lib.sides.webdataset import WebDataset

OURS: dict[str, type[LoaderSide]] = {
    "forebay": Forebay,
    "forebay_avx2": ForebayAvx2,
    "forebay_in_place": ForebayInPlace,
    "forebay_resized": ForebayResized,
}
PEERS: dict[str, type[LoaderSide]] = {
    "turboloader": TurboLoader,
    "dali_crop": DaliCrop,
    "dali": Dali,
    "ffcv_raw": FfcvRaw,
    "ffcv_q90": FfcvQ90,
    "ffcv_q96": FfcvQ96,
    "ffcv_resized": FfcvResized,
    "torchvision": Torchvision,
    "spdl": Spdl,
    "webdataset": WebDataset,
    "litdata": LitData,
    "streaming": Streaming,
    "opencv": OpenCv,
}
SIDES = OURS | PEERS
