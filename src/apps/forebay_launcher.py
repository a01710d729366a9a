#!python
"""The `forebay` command of an installed package; it starts the program inside the package.

The package is only located. Importing it would also import NumPy, which takes time.
"""

import os
import sys
from importlib.util import find_spec

package = find_spec("forebay")
if package is None or package.origin is None:
    sys.exit(
        f"forebay: {sys.executable} does not find the Python package forebay, which this command "
        "needs; install forebay for this Python, or add the package's folder to PYTHONPATH"
    )
os.environ.setdefault("FOREBAY_PYTHON", sys.executable)  # for `bench` and `show`
os.execv(os.path.join(os.path.dirname(package.origin), "bin", "forebay"), sys.argv)
