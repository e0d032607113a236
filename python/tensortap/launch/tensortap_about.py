"""`ttap doctor` runs this with an interpreter: what it has of what recording needs, as JSON."""

import json
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, _HERE)  # where it is not already, as with python -P

from tensortap_path import import_package  # noqa: E402

# The sitecustomize.py in here is not for us.
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]


def _about_package(facts):
    try:
        tensortap = import_package()
        facts["package"] = f"tensortap {tensortap.__version__}, {os.path.dirname(tensortap.__file__)}"
    except Exception as error:
        facts["package_error"] = str(error)


def _about_torch(facts):
    try:
        import torch  # may not be there
    except Exception as error:
        facts["torch_error"] = str(error).splitlines()[0] if str(error) else type(error).__name__
        return
    facts["torch"] = torch.__version__
    if torch.cuda.is_available():
        facts["torch_gpu"] = torch.cuda.get_device_name(0)
    if "package" in facts:
        _about_operators(facts, torch)


def _about_operators(facts, torch):
    from tensortap.torch_glue import observer_build, op_extension  # tensortap may not be there

    version = torch.__version__
    fits = " and ".join(op_extension.installed_versions()) or "no PyTorch"
    if op_extension.installed_for(version) is not None:
        how = f"observed by an extension built for PyTorch {op_extension.minor_of(version)}"
    elif (cached := observer_build.cached(version)) is not None and cached.exists():
        how = f"observed by an extension compiled for PyTorch {version}: {cached}"
    elif cached is not None and (compiler := observer_build.find_compiler()) is not None:
        how = f"observed by an extension that is compiled at first use, with {compiler}, for PyTorch {version}"
    else:
        facts["operators"] = (
            f"not observed: built for {fits}, this is PyTorch {version}, and there is no C++ compiler: install g++ 12"
        )
        return
    facts["sees_operators"] = True
    facts["operators"] = how


def main():
    if sys.version_info < (3, 10):
        sys.exit(1)
    facts = {"executable": sys.executable, "version": sys.version.split()[0], "sees_operators": False}
    _about_package(facts)
    _about_torch(facts)
    print(json.dumps(facts))


main()
