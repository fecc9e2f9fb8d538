#!/usr/bin/env python3
"""Links the fake libraries into a virtual environment, where the PyTorch wheel's RPATH looks for NVIDIA's.

    fake_site.py VENV FAKES        FAKES: build/tests/fakes/cuda13

Links, not copies: a rebuilt fake takes effect. Safe to run again. Refuses an environment that has real nvidia-*
packages.
"""

import os
import pathlib
import sys

# site-packages/nvidia/FOLDER/lib, as in NVIDIA's wheels.
FOLDERS = {"libcudnn": "cudnn", "libnccl": "nccl", "libcusparseLt": "cusparselt", "libnvshmem_host": "nvshmem"}
OTHERS = "cu13"


def site_packages(venv):
    found = sorted(pathlib.Path(venv).glob("lib/python3*/site-packages"))
    if not found:
        raise FileNotFoundError(f"found no site-packages in {venv}, expected a virtual environment")
    return found[0]


def lay(venv, fakes):
    """Returns the names of the links."""
    nvidia = site_packages(venv) / "nvidia"
    libraries = sorted(pathlib.Path(fakes).resolve().glob("lib*.so*"))
    if not libraries:
        raise FileNotFoundError(f"found no library in {fakes}, expected the fakes")
    for library in libraries:
        folder = nvidia / FOLDERS.get(library.name.split(".so")[0], OTHERS) / "lib"
        folder.mkdir(parents=True, exist_ok=True)
        place = folder / library.name
        if place.exists() and not place.is_symlink():
            raise FileExistsError(f"{place} is no link: this environment has real NVIDIA packages")
        if place.is_symlink() and place.readlink() == library:
            continue
        temporary = place.with_name(f"{place.name}.{os.getpid()}")  # tests that start together link together
        temporary.symlink_to(library)
        temporary.replace(place)
    return [library.name for library in libraries]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(f"{len(lay(sys.argv[1], sys.argv[2]))} fake libraries in {sys.argv[1]}")
