"""What the machine is and what is installed on it: everything that a time depends on."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from calc.errors import Refused, printable
from calc.spec.fields import DeviceKind, refuse
from harness.measuring.sampling import facts, find_gpu
from harness.record import Environment

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("calc", "harness", "reference_models")
"""What the commit of a result is about: other files of the repository change no time."""
INSTALL = "torch, for what measures, in a clone: pip install -e '.[harness]'"
PYTHON = (sys.executable, "-P")
"""What runs a child with `child_variables`: a file of the folder that one works in, such as a dashboard.py of the
user's own, is not taken for a module of ours or of a library."""


def probe(device: DeviceKind | None = None) -> Environment:
    """What a child process finds, so that neither torch nor a broken driver is in this one; None: CUDA where it is.

    Errors: Refused where the device is not there, ImportError where torch is not.
    """
    command = [*PYTHON, "-m", "harness.environment", *([device] if device else [])]
    done = subprocess.run(command, capture_output=True, text=True, env=child_variables(), check=False)
    if done.returncode == 0:
        try:
            return Environment.model_validate_json(done.stdout.splitlines()[-1])
        except ValidationError as error:
            raise refuse(error, "environment") from None
    why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    if done.returncode == 3:
        raise ImportError(why)
    raise Refused("device", device or "a device that torch can use", printable(why))


def child_variables() -> dict[str, str]:
    """The variables of a child: it finds the modules that this process finds."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}


def here(device: DeviceKind | None = None) -> Environment:
    """The environment of this process. Imports torch. Errors: Refused for `cuda` where there is none, ImportError."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ImportError(INSTALL) from error
    if device == "cuda" and not torch.cuda.is_available():
        raise Refused("device", "a CUDA device that torch can use", "none")
    target = device or ("cuda" if torch.cuda.is_available() else "cpu")
    common: dict[str, Any] = {
        "device": target,
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "cpu": cpu_name(),
        "os": platform.platform(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "triton": _version("triton", "pytorch-triton"),
        "commit": commit(),
        "load": os.getloadavg()[0],
    }
    if target == "cpu":
        return Environment(slug=cpu_slug(), name=common["cpu"], memory=host_memory(), **common)
    gpu = torch.cuda.get_device_properties(0)
    return Environment(
        slug=slug_of(gpu.name),
        name=gpu.name,
        memory=gpu.total_memory,
        cuda=torch.version.cuda,
        sm_count=gpu.multi_processor_count,
        capability=f"{gpu.major}.{gpu.minor}",
        **common,
        **facts(find_gpu()),
    )


def slug_of(name: str) -> str:
    """A device's name as a folder: `NVIDIA H100 80GB HBM3` is nvidia-h100-80gb-hbm3."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"\((r|tm)\)|@.*?hz", " ", name.lower()))
    return "-".join(words)[:80].strip("-") or "unknown"


def cpu_slug() -> str:
    """This machine's processor as a folder."""
    return slug_of(f"cpu {cpu_name()} {usable_cores()} cores")


def likely_slug() -> str:
    """What `here` would most likely call this machine, told without torch: its first GPU where the driver names one."""
    with suppress(OSError):
        for file in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
            if found := re.search(r"^Model:\s*(.+)$", file.read_text(), re.M):
                return slug_of(found[1])
    return cpu_slug()


def cpu_name() -> str:
    """The processor as it calls itself."""
    with suppress(OSError):
        found = re.search(r"^(?:model name|Hardware|cpu model)\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine() or "unknown"


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def host_memory(which: Literal["MemTotal", "MemAvailable"] = "MemTotal") -> int:
    """Bytes of the host's memory, or of what is left of it; no more than the process's group may take."""
    with suppress(OSError):
        found = re.search(rf"^{which}:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
        if found:
            return min(int(found[1]) * 1024, _group_memory() or sys.maxsize)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _group_memory() -> int | None:
    """The limit of a container, under either version of control groups."""
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            return int(Path(path).read_text())
    return None


def commit() -> str | None:
    """The commit that these packages are of, and `+` with a digest of what differs; None outside of a repository."""
    head = _git("rev-parse", "--short=12", "HEAD")
    if head is None or _git("ls-files", "--error-unmatch", "harness/environment.py") is None:
        return None
    changed = _git("diff", "HEAD", "--", *PACKAGES) or ""
    new = _git("ls-files", "--others", "--exclude-standard", "--", *PACKAGES) or ""
    if not changed and not new:
        return head
    digest = hashlib.sha256(changed.encode())
    for name in new.splitlines():
        with suppress(OSError):
            digest.update(name.encode() + (ROOT / name).read_bytes())
    return f"{head}+{digest.hexdigest()[:8]}"


def _git(*words: str) -> str | None:
    """What git prints, None where it fails or is not there."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(*names: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    for name in names:
        with suppress(PackageNotFoundError):
            return version(name)
    return None


def _main() -> int:
    """For `probe`: the environment as one line of JSON; 2 where it is refused, 3 where torch is missing."""
    try:
        found = here(sys.argv[1] if len(sys.argv) > 1 else None)  # pyright: ignore[reportArgumentType]
    except Refused as refusal:
        print(refusal.found, file=sys.stderr)
        return 2
    except ImportError as error:
        print(error, file=sys.stderr)
        return 3
    print(found.model_dump_json())
    return 0


if __name__ == "__main__":
    sys.exit(_main())
