"""Starts kubectl-powertrain from its one file: unpacks it once, then runs it. Any Python 3 can read this file."""

import os
import platform
import sys
import tempfile
import zipfile

ABIS = ("cp311", "cp312", "cp313")
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
HELP = """kubectl-powertrain needs {needs}; this is {have}.
{board}Other ways to run the same command:
  - name another interpreter:   python3.12 {program} ...
  - from the CLI image, which holds its own Python (powertrain images import has put it on the nodes):
      kubectl run powertrain --rm -i --restart=Never --image=powertrain-cli:{version} --image-pull-policy=Never -- ...
      sudo k3s ctr run --rm --privileged --mount type=bind,src=/sys,dst=/sys,options=rbind:rw \\
          docker.io/library/powertrain-cli:{version} doctor powertrain doctor
"""
BOARD = "JetPack 5 has Python 3.8 and JetPack 6 has Python 3.10. The agent does not need the board's Python.\n"


def main():
    """Check the machine, unpack what is not unpacked yet, and start."""
    program = os.path.abspath(sys.argv[0])
    with zipfile.ZipFile(program) as archive:
        about = dict(line.split("=", 1) for line in archive.read("about.txt").decode().split("\n") if line)
        refuse(program, about)
        home = unpacked(archive, about)
    abi = "cp%d%d" % sys.version_info[:2]
    sys.path[:1] = [os.path.join(home, abi), os.path.join(home, "any")]
    from powertrain_cli.main import run

    run()


def refuse(program, about):
    """End with what is needed, where this machine can't run it."""
    abi = "cp%d%d" % sys.version_info[:2]
    machine = MACHINES[about["architecture"]]
    if abi in ABIS and platform.machine() == machine:
        return
    needs = "Python 3.11, 3.12 or 3.13 on Linux %s" % machine
    have = "Python %d.%d on %s %s" % (*sys.version_info[:2], platform.system(), platform.machine())
    board = BOARD if os.path.exists("/etc/nv_tegra_release") else ""
    sys.stderr.write(HELP.format(needs=needs, have=have, board=board, program=program, version=about["version"]))
    sys.exit(3)


def unpacked(archive, about):
    """Return the folder with the files; libraries with machine code can't be loaded from a zip."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    parent = os.path.join(cache, "powertrain", "kubectl-powertrain")
    abi = "cp%d%d" % sys.version_info[:2]
    home = os.path.join(parent, "%s-%s" % (about["identity"], abi))
    if not os.path.isdir(home):
        os.makedirs(parent, exist_ok=True)
        stage = tempfile.mkdtemp(dir=parent)
        members = [name for name in archive.namelist() if name.split("/")[0] in ("any", abi)]
        archive.extractall(stage, members)
        try:
            os.rename(stage, home)
        except OSError:  # another process was faster
            import shutil

            shutil.rmtree(stage)
    return home


if __name__ == "__main__":
    main()
