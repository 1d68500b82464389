"""One list of operations on a board's knobs, and where the simulated board may answer differently from the kernel.

An operation is the file to write, the text ("-" writes nothing), and the files to read after it (the same if none).
"""

from __future__ import annotations

from powertrain.devices import Device

# Answers that differ, with the reason; all others must be equal.
DIFFERENCES: dict[str, str] = {
    "cpu0/online 0": "a Jetson's firmware keeps cpu0 online and the kernel answers EPERM; QEMU's lets it go",
    "gpu/governor no-such-governor": (
        "Linux asks modprobe for an unknown devfreq governor and answers with its error; L4T has all of its built in"
    ),
}


def operations(device: Device) -> list[list[str]]:
    """Return the operations for a board with at least two clusters."""
    cpu, gpu = device.tables.cpu_khz.values, device.tables.gpu_hz.values
    second = min(device.clusters[1])
    return [
        *_cpu_limits(cpu, "policy0/scaling_min_freq", "policy0/scaling_max_freq"),
        *_gpu_limits(gpu),
        *_hotplug(device.clusters[1], cpu, f"policy{second}"),
        ["policy0/scaling_governor", "powersave"],
        ["policy0/scaling_governor", "no-such-governor"],
        ["policy0/scaling_governor", "schedutil"],
        ["gpu/governor", "no-such-governor"],
        ["fan", "128"],
        ["fan", "300"],
        ["fan", "-1"],
        ["fan", "fast"],
        ["fan", "80"],
    ]


def _cpu_limits(table: tuple[int, ...], low: str, high: str) -> list[list[str]]:
    middle, upper = table[len(table) // 2], table[-2]
    return [
        [low, str(table[0]), low, high],
        [high, str(middle), low, high],  # legal: lowering the maximum
        [low, str(middle), low, high],  # pinned
        [high, str(table[1]), low, high],  # the maximum below the minimum
        [high, str(upper), low, high],  # the minimum that was asked for comes back
        [low, str(table[-1]), low, high],  # the minimum above the maximum
        [high, str(table[-1]), low, high],
        [low, str(table[0]), low, high],
        [high, str(middle + 1000), low, high],  # unrounded
        [low, str(table[2] + 1000), low, high],
        [high, str(middle + 1000), low, high],
        [low, str(table[-1]), low, high],  # above a maximum between two steps
        [low, str(table[0]), low, high],
        [high, "1", low, high],  # below the table
        [high, "99999999", low, high],  # above it
        [low, "0", low, high],
        [low, "-1", low, high],
        [low, "abc", low, high],
        [low, "", low, high],
        [low, " 1190400 ", low, high],
        [low, f"{table[3]} {table[4]}", low, high],  # the first number counts
        [low, "1.5", low, high],
        [low, str(table[0]), low, high],
        [high, str(table[-1]), low, high],
    ]


def _gpu_limits(table: tuple[int, ...]) -> list[list[str]]:
    low, high = "gpu/min_freq", "gpu/max_freq"
    return [
        [low, str(table[0]), low, high],
        [high, str(table[2]), low, high],
        [low, str(table[2]), low, high],  # pinned
        [high, str(table[0]), low, high],  # the maximum below the minimum
        [high, str(table[3]), low, high],
        [low, str(table[-1]), low, high],  # the minimum above the maximum
        [high, str(table[-1]), low, high],
        [low, "0", low, high],
        [high, str(table[1] + 123), low, high],  # unrounded
        [low, str(table[0] + 123), low, high],
        [high, "0", low, high],  # no limit
        [low, "-1", low, high],
        [low, "abc", low, high],
        [low, str(table[0]), low, high],
        [high, str(table[-1]), low, high],
    ]


def _hotplug(cluster: tuple[int, ...], table: tuple[int, ...], policy: str) -> list[list[str]]:
    low, high, members = f"{policy}/scaling_min_freq", f"{policy}/scaling_max_freq", f"{policy}/affected_cpus"
    first, *others = sorted(cluster)
    return [
        ["cpu0/online", "0"],
        ["cpu0/online", "1"],
        [f"cpu{first}/online", "2"],
        [f"cpu{first}/online", "abc"],
        [low, str(table[0]), low],
        [high, str(table[5]), low, high, members],
        *([f"cpu{cpu}/online", "0", "online", members] for cpu in others),
        [f"cpu{first}/online", "0", "online", "offline"],
        ["online", "-", low, high],  # a policy without a CPU, read
        [high, str(table[4]), high],  # and written
        [f"cpu{first}/online", "0", "online"],  # once more: nothing to do
        [f"cpu{first}/online", "1", "online", low, high, members],
        *([f"cpu{cpu}/online", "1", "online", members] for cpu in others),
        [low, str(table[0]), low, high],
        [high, str(table[-1]), low, high],
    ]
