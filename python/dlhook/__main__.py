"""``python -m dlhook`` is the command ``dlhook``."""

import os
import sys

from dlhook._command import Error, command_path

try:
    path = command_path()
except Error as error:
    sys.exit(f"dlhook: {error}")
os.execv(path, [path, *sys.argv[1:]])
